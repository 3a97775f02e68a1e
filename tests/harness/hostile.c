// A library for LD_PRELOAD that causes faults, by variables of the environment:
//
//     HOSTILE_CLOCK=FILE   The wall clock differs by the seconds in FILE.
//     HOSTILE_HIDE=PATH    Nothing exists at PATH.
//     HOSTILE_DISK=FILE    FILE contains a 64-bit number: how many more operations the disk below HOSTILE_BELOW=DIR
//                          permits, shared by all programs. Then operations fail with the error HOSTILE_ERRNO. ENOSPC
//                          fails creating and writing, EROFS also renaming and removing. The first write that a full
//                          disk refuses is a short write, as on a real disk.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int64_t *room; // how many more operations the disk permits
static const char *below;
static int refusal;

__attribute__((constructor)) static void prepare(void) {
  const char *disk = getenv("HOSTILE_DISK"), *number = getenv("HOSTILE_ERRNO");
  below = getenv("HOSTILE_BELOW");
  if (!disk || !number || !below) return;
  refusal = atoi(number);
  int fd = syscall(SYS_openat, AT_FDCWD, disk, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return;
  void *shared = mmap(NULL, sizeof *room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (shared != MAP_FAILED) room = shared;
}

// --- the clock -------------------------------------------------------------------------------------------------------

static long offset(void) {
  const char *path = getenv("HOSTILE_CLOCK");
  int fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0) : -1;
  if (fd < 0) return 0;
  char digits[32] = {0};
  long length = syscall(SYS_read, fd, digits, sizeof digits - 1);
  syscall(SYS_close, fd);
  return length > 0 ? atol(digits) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
  int answer = syscall(SYS_clock_gettime, clock, out);
  if (!answer && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += offset();
  return answer;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  out->tv_sec = now.tv_sec, out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  return out ? (*out = now.tv_sec) : now.tv_sec;
}

// --- hidden paths ----------------------------------------------------------------------------------------------------

static int is_hidden(const char *path) {
  const char *hidden = getenv("HOSTILE_HIDE");
  if (!hidden || !path || strcmp(path, hidden)) return 0;
  errno = ENOENT;
  return 1;
}

int statx(int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
  return is_hidden(path) ? -1 : REAL(statx)(at, path, flags, mask, out);
}

int stat(const char *restrict path, struct stat *restrict out) {
  return is_hidden(path) ? -1 : REAL(stat)(path, out);
}

int stat64(const char *restrict path, struct stat64 *restrict out) {
  return is_hidden(path) ? -1 : REAL(stat64)(path, out);
}

int access(const char *path, int mode) { return is_hidden(path) ? -1 : REAL(access)(path, mode); }

// --- the disk --------------------------------------------------------------------------------------------------------

enum { TAKEN, CUT, REFUSED };

static int is_below(const char *path) { return room && path && !strncmp(path, below, strlen(below)); }

// Whether an operation that needs room is permitted.
static int take(void) {
  int64_t left = __atomic_fetch_sub(room, 1, __ATOMIC_SEQ_CST);
  if (left > 0) return TAKEN;
  errno = refusal;
  return left == 0 ? CUT : REFUSED;
}

static int refuses(const char *path) { return is_below(path) && take() != TAKEN; }

// Renaming and removing: refused only by a read-only disk, not by a full one.
static int refuses_change(const char *path) { return refusal == EROFS && refuses(path); }

static int refuses_open(const char *path, int flags) {
  int is_new = (flags & O_CREAT) && syscall(SYS_faccessat, AT_FDCWD, path, F_OK);
  return is_new ? refuses(path) : (flags & O_ACCMODE) != O_RDONLY && refuses_change(path);
}

#define OPEN(name, parameters, call)                                 \
  int name parameters {                                              \
    va_list rest;                                                    \
    va_start(rest, flags);                                           \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                    \
    return refuses_open(path, flags) ? -1 : REAL(name) call;         \
  }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))

int mkdir(const char *path, mode_t mode) { return refuses(path) ? -1 : REAL(mkdir)(path, mode); }

int rename(const char *from, const char *to) { return refuses_change(to) ? -1 : REAL(rename)(from, to); }

int unlink(const char *path) { return refuses_change(path) ? -1 : REAL(unlink)(path); }

// How many of the bytes for `fd` the disk accepts; -1 if none.
static ssize_t taken(int fd, size_t bytes) {
  char link[64] = "/proc/self/fd/", path[4096], digits[16];
  if (!room) return bytes;
  int length = 0;
  do digits[length++] = '0' + fd % 10; while ((fd /= 10));
  char *end = link + strlen(link);
  while (length) *end++ = digits[--length];
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return bytes;
  path[size] = 0;
  if (!is_below(path)) return bytes;
  switch (take()) {
    case TAKEN: return bytes;
    case CUT: return bytes > 1 && refusal == ENOSPC ? (ssize_t)(bytes / 2) : -1;
    default: return -1;
  }
}

ssize_t write(int fd, const void *from, size_t bytes) {
  ssize_t some = taken(fd, bytes);
  return some < 0 ? -1 : REAL(write)(fd, from, some);
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at) {
  ssize_t some = taken(fd, bytes);
  return some < 0 ? -1 : REAL(pwrite64)(fd, from, some, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  return taken(fd, 1) < 0 ? -1 : REAL(writev)(fd, parts, count);
}
