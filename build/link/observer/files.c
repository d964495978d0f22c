// The C library's functions that open files.
#include "log.h"
#include "paths.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

static int needs_mode(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }

static mode_t mode_of(int flags, va_list more) { return needs_mode(flags) ? va_arg(more, mode_t) : 0; }

#define OPEN(name)                                                                                                     \
  EXPORT int name(const char *path, int flags, ...) {                                                                  \
    NEXT(int (*)(const char *, int, ...), name);                                                                       \
    va_list more;                                                                                                      \
    va_start(more, flags);                                                                                             \
    mode_t mode = mode_of(flags, more);                                                                                \
    va_end(more);                                                                                                      \
    if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;                                                            \
    int existed = precast_exists(AT_FDCWD, path, flags), file = real(path, flags, mode);                               \
    precast_opened(CALLER, AT_FDCWD, path, flags, existed, file);                                                      \
    return file;                                                                                                       \
  }
#define OPENAT(name)                                                                                                   \
  EXPORT int name(int folder, const char *path, int flags, ...) {                                                      \
    NEXT(int (*)(int, const char *, int, ...), name);                                                                  \
    va_list more;                                                                                                      \
    va_start(more, flags);                                                                                             \
    mode_t mode = mode_of(flags, more);                                                                                \
    va_end(more);                                                                                                      \
    if (precast_bars(CALLER, folder, path, 0)) return -1;                                                              \
    int existed = precast_exists(folder, path, flags), file = real(folder, path, flags, mode);                         \
    precast_opened(CALLER, folder, path, flags, existed, file);                                                        \
    return file;                                                                                                       \
  }
// What _FORTIFY_SOURCE makes of an opening without a mode.
#define OPEN_2(name)                                                                                                   \
  EXPORT int name(const char *path, int flags);                                                                        \
  int name(const char *path, int flags) {                                                                              \
    NEXT(int (*)(const char *, int), name);                                                                            \
    if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;                                                            \
    int file = real(path, flags);                                                                                      \
    precast_opened(CALLER, AT_FDCWD, path, flags, 1, file);                                                            \
    return file;                                                                                                       \
  }
#define OPENAT_2(name)                                                                                                 \
  EXPORT int name(int folder, const char *path, int flags);                                                            \
  int name(int folder, const char *path, int flags) {                                                                  \
    NEXT(int (*)(int, const char *, int), name);                                                                       \
    if (precast_bars(CALLER, folder, path, 0)) return -1;                                                              \
    int file = real(folder, path, flags);                                                                              \
    precast_opened(CALLER, folder, path, flags, 1, file);                                                              \
    return file;                                                                                                       \
  }
#define CREAT(name)                                                                                                    \
  EXPORT int name(const char *path, mode_t mode) {                                                                     \
    NEXT(int (*)(const char *, mode_t), name);                                                                         \
    if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;                                                            \
    int file = real(path, mode);                                                                                       \
    precast_opened(CALLER, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 1, file);                                     \
    return file;                                                                                                       \
  }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)
CREAT(creat)
CREAT(creat64)

static int flags_of(const char *mode) {
  if (!mode) return O_RDONLY;
  int both = strchr(mode, '+') != NULL, only = strchr(mode, 'x') ? O_EXCL : 0;
  if (*mode == 'w') return (both ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC | only;
  if (*mode == 'a') return (both ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | only;
  return both ? O_RDWR : O_RDONLY;
}

#define FOPEN(name)                                                                                                    \
  EXPORT FILE *name(const char *path, const char *mode) {                                                              \
    NEXT(FILE * (*)(const char *, const char *), name);                                                                \
    if (precast_bars(CALLER, AT_FDCWD, path, 0)) return NULL;                                                          \
    int flags = flags_of(mode), existed = precast_exists(AT_FDCWD, path, flags);                                       \
    FILE *file = real(path, mode);                                                                                     \
    precast_opened(CALLER, AT_FDCWD, path, flags, existed, file ? fileno(file) : -1);                                  \
    return file;                                                                                                       \
  }
#define FREOPEN(name)                                                                                                  \
  EXPORT FILE *name(const char *path, const char *mode, FILE *old) {                                                   \
    NEXT(FILE * (*)(const char *, const char *, FILE *), name);                                                        \
    if (precast_bars(CALLER, AT_FDCWD, path, 0)) return NULL;                                                          \
    int flags = flags_of(mode), existed = precast_exists(AT_FDCWD, path, flags);                                       \
    FILE *file = real(path, mode, old);                                                                                \
    if (path) precast_opened(CALLER, AT_FDCWD, path, flags, existed, file ? fileno(file) : -1);                        \
    return file;                                                                                                       \
  }

FOPEN(fopen)
FOPEN(fopen64)
FREOPEN(freopen)
FREOPEN(freopen64)
