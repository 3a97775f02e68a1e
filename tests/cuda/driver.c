/* In place of NVIDIA's driver: the environment determines its answers. */
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : atoi(text);
}

int cuInit(unsigned flags) {
  (void)flags;
  return number("STUB_INIT", 0);
}

int cuDriverGetVersion(int *version) {
  *version = number("STUB_CUDA", 99000);
  return 0;
}

int cuDeviceGet(int *device, int index) {
  *device = index;
  return 0;
}

int cuDeviceGetName(char *name, int length, int device) {
  (void)device;
  strncpy(name, "Made-Up GPU", length);
  return 0;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) {
  memset(uuid, 0x10 + device, 16);
  return 0;
}

/* 75 and 76 are the compute capability, 9.0 by default; 38 is the size of the cache. */
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? number("STUB_CAPABILITY", 9) : attribute == 38 ? 1 << 20 : 0;
  return 0;
}
