// The C library's functions that query files without opening them, and those that list, rename or remove them.
#include "log.h"
#include "paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STAT(name, kind)                                                                                               \
  EXPORT int name(const char *path, struct kind *facts) {                                                              \
    NEXT(int (*)(const char *, struct kind *), name);                                                                  \
    if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;                                                            \
    int result = real(path, facts);                                                                                    \
    precast_path(STATUS, CALLER, AT_FDCWD, path, result != 0);                                                         \
    return result;                                                                                                     \
  }
#define XSTAT(name, kind)                                                                                              \
  EXPORT int name(int version, const char *path, struct kind *facts);                                                  \
  int name(int version, const char *path, struct kind *facts) {                                                        \
    NEXT(int (*)(int, const char *, struct kind *), name);                                                             \
    if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;                                                            \
    int result = real(version, path, facts);                                                                           \
    precast_path(STATUS, CALLER, AT_FDCWD, path, result != 0);                                                         \
    return result;                                                                                                     \
  }
#define STATAT(name, kind)                                                                                             \
  EXPORT int name(int folder, const char *path, struct kind *facts, int flags) {                                       \
    NEXT(int (*)(int, const char *, struct kind *, int), name);                                                        \
    if (precast_bars(CALLER, folder, path, 0)) return -1;                                                              \
    int result = real(folder, path, facts, flags);                                                                     \
    precast_path(STATUS, CALLER, folder, path, result != 0);                                                           \
    return result;                                                                                                     \
  }
#define XSTATAT(name, kind)                                                                                            \
  EXPORT int name(int version, int folder, const char *path, struct kind *facts, int flags);                           \
  int name(int version, int folder, const char *path, struct kind *facts, int flags) {                                 \
    NEXT(int (*)(int, int, const char *, struct kind *, int), name);                                                   \
    if (precast_bars(CALLER, folder, path, 0)) return -1;                                                              \
    int result = real(version, folder, path, facts, flags);                                                            \
    precast_path(STATUS, CALLER, folder, path, result != 0);                                                           \
    return result;                                                                                                     \
  }

STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)
STATAT(fstatat, stat)
STATAT(fstatat64, stat64)
XSTAT(__xstat, stat)
XSTAT(__xstat64, stat64)
XSTAT(__lxstat, stat)
XSTAT(__lxstat64, stat64)
XSTATAT(__fxstatat, stat)
XSTATAT(__fxstatat64, stat64)

EXPORT int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict facts) {
  NEXT(int (*)(int, const char *, int, unsigned, struct statx *), statx);
  if (precast_bars(CALLER, folder, path, 0)) return -1;
  int result = real(folder, path, flags, mask, facts);
  precast_path(STATUS, CALLER, folder, path, result != 0);
  return result;
}

#define CHECK(name)                                                                                                    \
  EXPORT int name(const char *path, int mode) {                                                                        \
    NEXT(int (*)(const char *, int), name);                                                                            \
    if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;                                                            \
    int result = real(path, mode);                                                                                     \
    precast_path(ACCESS, CALLER, AT_FDCWD, path, result != 0);                                                         \
    return result;                                                                                                     \
  }

CHECK(access)
CHECK(euidaccess)
CHECK(eaccess)

EXPORT int faccessat(int folder, const char *path, int mode, int flags) {
  NEXT(int (*)(int, const char *, int, int), faccessat);
  if (precast_bars(CALLER, folder, path, 0)) return -1;
  int result = real(folder, path, mode, flags);
  precast_path(ACCESS, CALLER, folder, path, result != 0);
  return result;
}

EXPORT ssize_t readlink(const char *restrict path, char *restrict out, size_t size) {
  NEXT(ssize_t (*)(const char *, char *, size_t), readlink);
  if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;
  ssize_t result = real(path, out, size);
  precast_path(LINK, CALLER, AT_FDCWD, path, result < 0);
  return result;
}

EXPORT ssize_t readlinkat(int folder, const char *restrict path, char *restrict out, size_t size) {
  NEXT(ssize_t (*)(int, const char *, char *, size_t), readlinkat);
  if (precast_bars(CALLER, folder, path, 0)) return -1;
  ssize_t result = real(folder, path, out, size);
  precast_path(LINK, CALLER, folder, path, result < 0);
  return result;
}

EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room);
ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room) {
  NEXT(ssize_t (*)(const char *, char *, size_t, size_t), __readlink_chk);
  if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;
  ssize_t result = real(path, out, size, room);
  precast_path(LINK, CALLER, AT_FDCWD, path, result < 0);
  return result;
}

EXPORT ssize_t __readlinkat_chk(int folder, const char *path, char *out, size_t size, size_t room);
ssize_t __readlinkat_chk(int folder, const char *path, char *out, size_t size, size_t room) {
  NEXT(ssize_t (*)(int, const char *, char *, size_t, size_t), __readlinkat_chk);
  if (precast_bars(CALLER, folder, path, 0)) return -1;
  ssize_t result = real(folder, path, out, size, room);
  precast_path(LINK, CALLER, folder, path, result < 0);
  return result;
}

// The links on a path that it resolves, which it reads by functions of its own.
#define RESOLVE(name, type, ...)                                                                                       \
  NEXT(type, name);                                                                                                    \
  if (precast_bars(CALLER, AT_FDCWD, path, 0)) return NULL;                                                            \
  char *result = real(__VA_ARGS__);                                                                                    \
  precast_links(CALLER, path);                                                                                         \
  precast_path(ACCESS, CALLER, AT_FDCWD, path, result == NULL);                                                        \
  return result

EXPORT char *realpath(const char *restrict path, char *restrict out) {
  RESOLVE(realpath, char *(*)(const char *, char *), path, out);
}

EXPORT char *__realpath_chk(const char *path, char *out, size_t room);
char *__realpath_chk(const char *path, char *out, size_t room) {
  RESOLVE(__realpath_chk, char *(*)(const char *, char *, size_t), path, out, room);
}

EXPORT char *canonicalize_file_name(const char *path) {
  RESOLVE(canonicalize_file_name, char *(*)(const char *), path);
}

// A change to a relative path leaves it depend on the folder of the build.
EXPORT int chdir(const char *path) {
  NEXT(int (*)(const char *), chdir);
  if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;
  int result = real(path);
  precast_path(ACCESS, CALLER, AT_FDCWD, path, result != 0);
  if (!result && *path == '/') precast_state.moved = (int32_t)KERNEL(SYS_getpid);
  return result;
}

EXPORT int fchdir(int folder) {
  NEXT(int (*)(int), fchdir);
  int result = real(folder);
  if (!result) precast_state.moved = (int32_t)KERNEL(SYS_getpid);
  return result;
}

EXPORT DIR *opendir(const char *path) {
  NEXT(DIR * (*)(const char *), opendir);
  if (precast_bars(CALLER, AT_FDCWD, path, 1)) return NULL;
  DIR *result = real(path);
  precast_path(FOLDER, CALLER, AT_FDCWD, path, result == NULL);
  return result;
}

EXPORT DIR *fdopendir(int folder) {
  NEXT(DIR * (*)(int), fdopendir);
  if (precast_bars(CALLER, folder, ".", 1)) return NULL;
  DIR *result = real(folder);
  precast_path(FOLDER, CALLER, folder, ".", result == NULL);
  return result;
}

#define SCANDIR(name, kind)                                                                                            \
  EXPORT int name(const char *restrict path, struct kind ***restrict names, int (*filter)(const struct kind *),        \
                  int (*order)(const struct kind **, const struct kind **)) {                                          \
    NEXT(int (*)(const char *, struct kind ***, int (*)(const struct kind *),                                          \
                 int (*)(const struct kind **, const struct kind **)),                                                 \
         name);                                                                                                        \
    if (precast_bars(CALLER, AT_FDCWD, path, 1)) return -1;                                                            \
    int result = real(path, names, filter, order);                                                                     \
    precast_path(FOLDER, CALLER, AT_FDCWD, path, result < 0);                                                          \
    return result;                                                                                                     \
  }

SCANDIR(scandir, dirent)
SCANDIR(scandir64, dirent64)

EXPORT int rename(const char *from, const char *to) {
  NEXT(int (*)(const char *, const char *), rename);
  int result = real(from, to);
  if (!result) precast_renamed(CALLER, AT_FDCWD, from, AT_FDCWD, to);
  return result;
}

EXPORT int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  NEXT(int (*)(int, const char *, int, const char *), renameat);
  int result = real(from_folder, from, to_folder, to);
  if (!result) precast_renamed(CALLER, from_folder, from, to_folder, to);
  return result;
}

EXPORT int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  NEXT(int (*)(int, const char *, int, const char *, unsigned), renameat2);
  int result = real(from_folder, from, to_folder, to, flags);
  if (!result) precast_renamed(CALLER, from_folder, from, to_folder, to);
  return result;
}

EXPORT int link(const char *from, const char *to) {
  NEXT(int (*)(const char *, const char *), link);
  int result = real(from, to);
  if (!result) precast_linked(CALLER, AT_FDCWD, from, AT_FDCWD, to);
  return result;
}

EXPORT int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
  NEXT(int (*)(int, const char *, int, const char *, int), linkat);
  int result = real(from_folder, from, to_folder, to, flags);
  if (!result) precast_linked(CALLER, from_folder, from, to_folder, to);
  return result;
}

EXPORT int unlink(const char *path) {
  NEXT(int (*)(const char *), unlink);
  int result = real(path);
  if (!result) precast_path(REMOVED, NULL, AT_FDCWD, path, 0);
  return result;
}

EXPORT int unlinkat(int folder, const char *path, int flags) {
  NEXT(int (*)(int, const char *, int), unlinkat);
  int result = real(folder, path, flags);
  if (!result) precast_path(REMOVED, NULL, folder, path, 0);
  return result;
}

EXPORT int remove(const char *path) {
  NEXT(int (*)(const char *), remove);
  int result = real(path);
  if (!result) precast_path(REMOVED, NULL, AT_FDCWD, path, 0);
  return result;
}

EXPORT int rmdir(const char *path) {
  NEXT(int (*)(const char *), rmdir);
  int result = real(path);
  if (!result) precast_path(REMOVED, NULL, AT_FDCWD, path, 0);
  return result;
}

EXPORT int mkdir(const char *path, mode_t mode) {
  NEXT(int (*)(const char *, mode_t), mkdir);
  if (precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;
  int result = real(path, mode);
  if (!result) precast_path(MADE, NULL, AT_FDCWD, path, 0);
  return result;
}

EXPORT int mkdirat(int folder, const char *path, mode_t mode) {
  NEXT(int (*)(int, const char *, mode_t), mkdirat);
  int result = real(folder, path, mode);
  if (!result) precast_path(MADE, NULL, folder, path, 0);
  return result;
}
