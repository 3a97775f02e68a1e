/* A stub of NVIDIA's driver library with the functions that orchestrate calls, for hosts with fake GPUs.
 *
 * STUB_NVML lists the GPUs: "whole", "parted" (in MIG mode, in two parts), "dead" (it fell off the bus) and "hidden"
 * (a scheduler gave it to another job). GPU i has the UUID GPU-i…, its parts are MIG-i0… and MIG-i1…. The readings of
 * a GPU depend on i, so that a mix-up is detected. STUB_NVML_BUSY is the UUID of the device on which the process
 * STUB_NVML_PID computes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LOST = 15 };
enum { GPUS = 8, PARTS = 2 };

typedef struct thing {
    char uuid[80];
    char kind; /* 'w'hole, 'p'arted, 'd'ead, 'h'idden, or 'm': a part */
    unsigned gpu, part;
    struct thing *parent, *parts;
} thing;

typedef struct { unsigned pid; unsigned long long bytes; unsigned instance, compute; } process;
typedef struct { unsigned version; unsigned long long total, reserved, available, used; } memory;

static thing gpus[GPUS], parts[GPUS][PARTS];
static unsigned count;

int nvmlInit_v2(void) {
    const char *word = getenv("STUB_NVML");
    for (count = 0; word && *word && count < GPUS; count++) {
        thing *gpu = &gpus[count];
        gpu->kind = *word;
        gpu->gpu = count;
        gpu->parts = parts[count];
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%u0000000-0000-0000-0000-000000000000", count);
        for (unsigned part = 0; part < PARTS; part++) {
            parts[count][part] = (thing){ .kind = 'm', .gpu = count, .part = part, .parent = gpu };
            char *uuid = parts[count][part].uuid;
            snprintf(uuid, sizeof gpu->uuid, "MIG-%u%u000000-0000-0000-0000-000000000000", count, part);
        }
        word += strcspn(word, ",");
        word += *word == ',';
    }
    return SUCCESS;
}

int nvmlShutdown(void) { return SUCCESS; }

static int text(char *to, unsigned room, const char *from) {
    return snprintf(to, room, "%s", from) < (int)room ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlSystemGetDriverVersion(char *version, unsigned room) { return text(version, room, "580.65.06"); }

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 13000;
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *number) {
    *number = count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, thing **device) {
    if (index >= count) return NOT_FOUND;
    if (gpus[index].kind == 'd') return LOST;
    if (gpus[index].kind == 'h') return NO_PERMISSION;
    *device = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, thing **device) {
    for (unsigned gpu = 0; gpu < count; gpu++) {
        if (!strcmp(uuid, gpus[gpu].uuid)) return nvmlDeviceGetHandleByIndex_v2(gpu, device);
        for (unsigned part = 0; gpus[gpu].kind == 'p' && part < PARTS; part++)
            if (!strcmp(uuid, parts[gpu][part].uuid)) {
                *device = &parts[gpu][part];
                return SUCCESS;
            }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(thing *device, char *uuid, unsigned room) { return text(uuid, room, device->uuid); }

int nvmlDeviceGetName(thing *device, char *name, unsigned room) {
    char full[40];
    snprintf(full, sizeof full, "NVIDIA Stub %u", device->gpu);
    return text(name, room, full);
}

int nvmlDeviceGetCudaComputeCapability(thing *device, int *major, int *minor) {
    (void)device;
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(thing *device, memory *answer) {
    unsigned long long gib = 1ULL << 30, used = device->kind == 'm' ? device->part + 1 : 10 * (device->gpu + 1);
    answer->total = (device->kind == 'm' ? 10 : 80) * gib;
    answer->used = used * gib;
    answer->available = answer->total - answer->used;
    answer->reserved = 0;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(thing *device, unsigned *current, unsigned *pending) {
    if (device->kind == 'm') return NOT_SUPPORTED;
    *current = *pending = device->kind == 'p';
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(thing *device, unsigned *number) {
    (void)device;
    *number = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(thing *device, unsigned index, thing **part) {
    if (device->kind != 'p' || index >= PARTS) return NOT_FOUND;
    *part = &device->parts[index];
    return SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(thing *part, thing **device) {
    if (part->kind != 'm') return NOT_FOUND;
    *device = part->parent;
    return SUCCESS;
}

/* A part has no sensors. */
static int reading(thing *device, unsigned *answer, unsigned value) {
    if (device->kind == 'm') return NOT_SUPPORTED;
    *answer = value;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(thing *device, int sensor, unsigned *celsius) {
    (void)sensor;
    return reading(device, celsius, 40 + device->gpu);
}

int nvmlDeviceGetClockInfo(thing *device, int clock, unsigned *megahertz) {
    return reading(device, megahertz, (clock == 1 ? 1000 : 2000) + device->gpu);
}

int nvmlDeviceGetPowerUsage(thing *device, unsigned *milliwatts) {
    return reading(device, milliwatts, 100000 * (device->gpu + 1));
}

int nvmlDeviceGetTotalEnergyConsumption(thing *device, unsigned long long *millijoules) {
    unsigned value = 0;
    int error = reading(device, &value, 5000000);
    *millijoules = value;
    return error;
}

/* GPU 1 is throttled by its power cap, the others are not throttled. */
int nvmlDeviceGetCurrentClocksThrottleReasons(thing *device, unsigned long long *reasons) {
    unsigned value = 0;
    int error = reading(device, &value, device->gpu == 1 ? 4 : 0);
    *reasons = value;
    return error;
}

static int is_busy(thing *device) {
    const char *busy = getenv("STUB_NVML_BUSY");
    if (busy && !strcmp(busy, device->uuid)) return 1;
    /* The whole GPU lists the processes of all its parts. */
    for (unsigned part = 0; device->kind == 'p' && part < PARTS; part++)
        if (is_busy(&device->parts[part])) return 1;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(thing *device, unsigned *number, process *processes) {
    unsigned room = *number;
    *number = is_busy(device);
    if (*number > room) return INSUFFICIENT_SIZE;
    if (*number) *processes = (process){ (unsigned)atoi(getenv("STUB_NVML_PID")), 1ULL << 30, ~0U, ~0U };
    return SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(thing *device, unsigned *number, process *processes) {
    (void)processes;
    *number = 0;
    return device->kind == 'm' ? NOT_SUPPORTED : SUCCESS;
}
