// Calls of the kernel by their numbers. Where one means the same as a function of the C library, it is noted as that.
#include "log.h"
#include "paths.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct call {
  long number;
  long words[6];
  const void *caller;
};

static long real(const struct call *call) {
  const long *words = call->words;
  return KERNEL(call->number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

static long opened(const struct call *call, int folder, const char *path, int flags) {
  if (precast_bars(call->caller, folder, path, 0)) return -1;
  int existed = precast_exists(folder, path, flags), file = (int)real(call);
  precast_opened(call->caller, folder, path, flags, existed, file);
  return file;
}

static long checked(const struct call *call, int kind, int folder, const char *path) {
  if (precast_bars(call->caller, folder, path, kind == FOLDER)) return -1;
  long result = real(call);
  precast_path(kind, call->caller, folder, path, result < 0);
  return result;
}

static long named(const struct call *call, int kind, const char *name) {
  precast_named(kind, call->caller, name);
  return real(call);
}

// What only one of the processors has.
static long older(const struct call *call) {
#ifdef SYS_open
  const char *path = (const char *)call->words[0];
  switch (call->number) {
  case SYS_open:
    return opened(call, AT_FDCWD, path, (int)call->words[1]);
  case SYS_creat:
    return opened(call, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC);
  case SYS_stat:
  case SYS_lstat:
    return checked(call, STATUS, AT_FDCWD, path);
  case SYS_access:
    return checked(call, ACCESS, AT_FDCWD, path);
  case SYS_readlink:
    return checked(call, LINK, AT_FDCWD, path);
  case SYS_getdents:
    return checked(call, FOLDER, (int)call->words[0], ".");
  case SYS_time:
    return named(call, CLOCK, "time");
  }
#endif
  return real(call);
}

static long noted(const struct call *call) {
  const long *words = call->words;
  int folder = (int)words[0];
  const char *path = (const char *)words[1];
  switch (call->number) {
  case SYS_openat:
    return opened(call, folder, path, (int)words[2]);
  case SYS_openat2:
    return opened(call, folder, path, (int)((const struct open_how *)words[2])->flags);
  case SYS_newfstatat:
  case SYS_statx:
    return checked(call, STATUS, folder, path);
  case SYS_faccessat:
#ifdef SYS_faccessat2
  case SYS_faccessat2:
#endif
    return checked(call, ACCESS, folder, path);
  case SYS_readlinkat:
    return checked(call, LINK, folder, path);
  case SYS_getdents64:
    return checked(call, FOLDER, folder, ".");
  case SYS_execve:
    return execve((const char *)words[0], (char *const *)words[1], (char *const *)words[2]);
  case SYS_execveat:
    return execveat(folder, path, (char *const *)words[2], (char *const *)words[3], (int)words[4]);
  case SYS_getrandom:
    return named(call, RANDOM, "getrandom");
  case SYS_gettimeofday:
    return named(call, CLOCK, "gettimeofday");
  case SYS_clock_gettime:
    if (words[0] == CLOCK_REALTIME || words[0] == CLOCK_REALTIME_COARSE) return named(call, CLOCK, "clock_gettime");
    return real(call);
  case SYS_uname:
    return named(call, HOST, "uname");
  case SYS_sysinfo:
    return named(call, HOST, "sysinfo");
  case SYS_sched_getaffinity:
    return named(call, HOST, "sched_getaffinity");
#ifdef SYS_io_uring_setup
  case SYS_io_uring_setup:
    return named(call, HOST, "io_uring_setup"); // what is read in this way is not seen
#endif
  default:
    return older(call);
  }
}

EXPORT long syscall(long number, ...) {
  struct call call = {.number = number, .caller = CALLER};
  va_list more;
  va_start(more, number);
  for (int i = 0; i < 6; i++) call.words[i] = va_arg(more, long);
  va_end(more);
  return precast_active() ? noted(&call) : real(&call);
}
