// Paths: absolute names, and what an opening means. Only system calls of the kernel are used: nothing here is observed.
#include "paths.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t written_number(char *out, unsigned value) {
  char digits[12];
  size_t count = 0, length = 0;
  do digits[count++] = (char)('0' + value % 10);
  while (value /= 10);
  while (count) out[length++] = digits[--count];
  out[length] = 0;
  return length;
}

// The part of a name that stands for a descriptor or a folder of a process, as /proc/self/fd/3; 0 if there is none.
static size_t process_link(const char *name) {
  if (!strncmp(name, "/dev/fd/", 8)) return 8 + strspn(name + 8, "0123456789");
  if (strncmp(name, "/proc/", 6)) return 0;
  size_t at = 6 + strcspn(name + 6, "/");
  if (!strncmp(name + at, "/fd/", 4)) return at + 4 + strspn(name + at + 4, "0123456789");
  if (!strncmp(name + at, "/cwd", 4)) return at + 4;
  return strncmp(name + at, "/root", 5) ? 0 : at + 5;
}

// Put what such a part stands for in its place, if it is a file or a folder.
static size_t without_process_link(char *name, size_t length) {
  size_t part = process_link(name);
  if (!part || (name[part] && name[part] != '/')) return length;
  char link[64], target[LONGEST_PATH];
  size_t shift = *(name + 1) == 'd' ? 0 : part; // /dev/fd is /proc/self/fd
  if (part >= sizeof link - 16) return length;
  if (shift)
    memcpy(link, name, part), link[part] = 0;
  else
    memcpy(link, "/proc/self/", 11), memcpy(link + 11, name + 5, part - 5), link[11 + part - 5] = 0;
  long got = KERNEL(SYS_readlinkat, AT_FDCWD, link, target, sizeof target);
  if (got <= 0 || *target != '/' || !strncmp(target, "/memfd:", 7) || (size_t)got + length - part >= LONGEST_PATH)
    return length;
  if (got == 1) got = 0; // the root
  memmove(name + got, name + part, length - part + 1);
  memcpy(name, target, (size_t)got);
  return (size_t)got + length - part;
}

// The absolute name of a path that is relative to a folder; 0 if it has none, or is too long.
size_t precast_absolute(char *out, int folder, const char *path) {
  if (!path || !*path) return 0;
  size_t start = 0, length = strnlen(path, LONGEST_PATH);
  if (*path != '/') {
    long got;
    if (folder == AT_FDCWD) {
      got = KERNEL(SYS_getcwd, out, LONGEST_PATH);
      got = got > 0 ? got - 1 : got;
    } else {
      char link[32] = "/proc/self/fd/";
      if (folder < 0) return 0;
      written_number(link + strlen(link), (unsigned)folder);
      got = KERNEL(SYS_readlinkat, AT_FDCWD, link, out, LONGEST_PATH - 1);
    }
    if (got <= 0 || *out != '/') return 0;
    start = (size_t)got;
    out[start++] = '/';
  }
  if (start + length >= LONGEST_PATH) return 0;
  memcpy(out + start, path, length);
  out[start + length] = 0;
  return without_process_link(out, start + length);
}

static void take_stamp(struct about *about, const struct stat *facts) {
  about->stamp[0] = facts->st_mtim.tv_sec * 1000000000 + facts->st_mtim.tv_nsec;
  about->stamp[1] = facts->st_size;
  about->stamp[2] = (int64_t)facts->st_ino;
  about->stamp[3] = facts->st_ctim.tv_sec * 1000000000 + facts->st_ctim.tv_nsec;
}

static int is_relative(int folder, const char *path) {
  return folder == AT_FDCWD && path && *path != '/' && !precast_moved();
}

void precast_path(int kind, const void *caller, int folder, const char *path, int failed) {
  if (!precast_active() || precast_is_quiet(caller) || (failed && errno == EFAULT)) return;
  int before = errno;
  char name[LONGEST_PATH];
  size_t length = precast_absolute(name, folder, path);
  struct about about = {.kind = kind, .failed = failed, .caller = caller, .relative = is_relative(folder, path)};
  struct stat facts;
  if (kind == STATUS && !failed && !KERNEL(SYS_newfstatat, AT_FDCWD, name, &facts, 0)) take_stamp(&about, &facts);
  if (length) precast_event(&about, name, length);
  errno = before;
}

void precast_links(const void *caller, const char *path) {
  if (!precast_active() || precast_is_quiet(caller)) return;
  int before = errno;
  char name[LONGEST_PATH], target[8];
  size_t length = precast_absolute(name, AT_FDCWD, path);
  struct about about = {.kind = LINK, .caller = caller};
  for (size_t at = 1; length && at <= length; at++) {
    if (name[at] && name[at] != '/') continue;
    char rest = name[at];
    name[at] = 0;
    if (KERNEL(SYS_readlinkat, AT_FDCWD, name, target, sizeof target) > 0) precast_event(&about, name, at);
    name[at] = rest;
  }
  errno = before;
}

static void note_names(int kind, const void *caller, int from_folder, const char *from, int to_folder, const char *to) {
  if (!precast_active()) return;
  int before = errno;
  char names[2 * LONGEST_PATH + 1];
  size_t first = precast_absolute(names, from_folder, from);
  size_t second = first ? precast_absolute(names + first + 1, to_folder, to) : 0;
  struct about about = {.kind = kind, .caller = caller};
  if (second) precast_event(&about, names, first + 1 + second);
  errno = before;
}

void precast_renamed(const void *caller, int from_folder, const char *from, int to_folder, const char *to) {
  note_names(RENAMED, caller, from_folder, from, to_folder, to);
}

// A further name of a file: what is read by it is the content of the first.
void precast_linked(const void *caller, int from_folder, const char *from, int to_folder, const char *to) {
  if (!precast_active()) return;
  int before = errno;
  char name[LONGEST_PATH];
  size_t length = precast_absolute(name, from_folder, from);
  struct about about = {.kind = OPENED, .caller = caller, .relative = is_relative(from_folder, from)};
  if (length) precast_event(&about, name, length);
  errno = before;
  note_names(LINKED, caller, from_folder, from, to_folder, to);
}

// Whether a file is there before an opening that may create it.
int precast_exists(int folder, const char *path, int flags) {
  if (!precast_active() || !path || !(flags & O_CREAT)) return 1;
  int before = errno;
  int exists = !KERNEL(SYS_faccessat, folder, path, F_OK);
  errno = before;
  return exists;
}

void precast_opened(const void *caller, int folder, const char *path, int flags, int existed, int file) {
  if (!precast_active() || (file < 0 && errno == EFAULT)) return;
  int before = errno, writes = (flags & O_ACCMODE) != O_RDONLY, kind = OPENED;
  struct about about = {.failed = file < 0, .caller = caller, .relative = is_relative(folder, path)};
  struct stat facts;
  if (file >= 0) {
    if (fstat(file, &facts)) goto done;
    if (S_ISDIR(facts.st_mode))
      kind = ACCESS; // its names are listed by another call
    else if (writes && (!existed || (flags & O_TRUNC)))
      kind = MADE;
    else if (!writes)
      take_stamp(&about, &facts); // what is written to changes
  } else if (flags & O_EXCL) {
    kind = ACCESS; // it failed because the file exists
  }
  if ((flags & O_ACCMODE) == O_WRONLY && kind == OPENED) goto done;
  char name[LONGEST_PATH];
  size_t length = precast_absolute(name, folder, path);
  about.kind = kind;
  if (length) precast_event(&about, name, length);
done:
  errno = before;
}

// An absolute name without dots and double slashes, in place.
static size_t without_dots(char *name) {
  char *to = name;
  for (char *at = name; *at;) {
    while (*at == '/') at++;
    size_t length = strcspn(at, "/");
    if (length == 2 && at[0] == '.' && at[1] == '.') {
      while (to > name && *--to != '/') {
      }
    } else if (length && !(length == 1 && *at == '.')) {
      *to++ = '/';
      memmove(to, at, length);
      to += length;
    }
    at += length;
  }
  *to = 0;
  return (size_t)(to - name);
}

static int is_inside(const char *name, size_t length, const char *folder, size_t size) {
  return length >= size && !memcmp(name, folder, size) && (length == size || name[size] == '/');
}

static int is_declared(const char *name, size_t length, const char *allowed, size_t room, int lists) {
  for (size_t at = 0; at < room; at += strlen(allowed + at) + 1) {
    size_t size = strlen(allowed + at);
    if (is_inside(name, length, allowed + at, size) || (!lists && is_inside(allowed + at, size, name, length)))
      return 1;
  }
  return 0;
}

// The name of a file with no link on it; 0 if there is no such file.
static size_t resolved(char *out, const char *name) {
  if (!strncmp(name, "/proc/", 6) || !strncmp(name, "/dev/", 5)) return 0;
  long file = KERNEL(SYS_openat, AT_FDCWD, name, O_PATH | O_CLOEXEC);
  if (file < 0) return 0;
  char link[32] = "/proc/self/fd/";
  written_number(link + strlen(link), (unsigned)file);
  long got = KERNEL(SYS_readlinkat, AT_FDCWD, link, out, LONGEST_PATH - 1);
  KERNEL(SYS_close, file);
  return got > 0 && *out == '/' ? (size_t)got : 0;
}

// Whether a hermetic compilation must not read a path: it then behaves as if there were nothing. The folders above
// those that it may read can be queried, and not listed. A link that leads out of them is absent, too.
int precast_bars(const void *caller, int folder, const char *path, int lists) {
  size_t room = 0;
  const char *allowed = precast_allowed(&room);
  if (!allowed) return 0;
  int before = errno;
  char name[LONGEST_PATH], real[LONGEST_PATH];
  size_t length = precast_absolute(name, folder, path);
  if (length) length = without_dots(name);
  int barred = length && !is_declared(name, length, allowed, room, lists);
  if (length && !barred) {
    size_t size = resolved(real, name);
    barred = size && !is_declared(real, size, allowed, room, lists);
  }
  struct about about = {.kind = BARRED, .caller = caller};
  if (barred) precast_event(&about, name, length);
  errno = barred ? ENOENT : before;
  return barred;
}
