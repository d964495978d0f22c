/* Files of a folder: regular files that only this user and root may write, opened without following links. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table.h"

#define OVERRIDE "PRECAST_ALLOW_UNSAFE_CACHES"
#define OPEN     (O_RDONLY | O_CLOEXEC | O_NOFOLLOW)

struct reading {
  const char *root, *folder, *name;
  size_t limit;
  int held[3], count; /* the folder, a folder in it, the file */
  struct text data;
};

static const char *path_of(struct call *call, const struct reading *reading, int depth) {
  const char *folder = reading->folder;
  if (depth == 0) return reading->root;
  if (depth < reading->count - 1) return format(call, "%s/%s", reading->root, folder);
  return format(call, "%s/%s%s%s", reading->root, folder ? folder : "", folder ? "/" : "", reading->name);
}

/* The code in a folder runs as this user, so only this user and root may write it. */
static void refuse_strangers(struct call *call, const struct reading *reading, int depth, const struct stat *facts) {
  const char *lifted = getenv(OVERRIDE), *whose;
  if (facts->st_uid != 0 && facts->st_uid != geteuid()) {
    whose = format(call, "belongs to another user (uid %u)", facts->st_uid);
  } else if (facts->st_mode & S_IWOTH) {
    whose = "can be written by everyone";
  } else {
    return;
  }
  if (lifted && !strcmp(lifted, "1")) return;
  fail(call, PRECAST_CACHE_ERROR, "%s %s, who could run code as you: change that, or set " OVERRIDE "=1 to accept it",
       path_of(call, reading, depth), whose);
}

static void missing(struct call *call, const struct reading *reading) {
  if (!reading->folder)
    fail(call, PRECAST_CACHE_ERROR, "%s holds no " TABLE ": give the folder that 'precast native CACHE -o' made",
         reading->root);
  fail(call, PRECAST_INTEGRITY_ERROR,
       "%s/%s/%s is missing: " AGAIN "; if it was replaced while this process ran, restart", reading->root,
       reading->folder, reading->name);
}

static void unreadable(struct call *call, const struct reading *reading, int error) {
  if (error == ENOENT) missing(call, reading);
  fail(call, PRECAST_CACHE_ERROR,
       "%s/%s%s%s cannot be read (%s): give a folder of plain files that this user may read, without links",
       reading->root, reading->folder ? reading->folder : "", reading->folder ? "/" : "", reading->name,
       strerror(error));
}

static void hold(struct call *call, struct reading *reading, int descriptor) {
  if (descriptor < 0) unreadable(call, reading, errno);
  reading->held[reading->count++] = descriptor;
}

static void read_it(struct call *call, void *argument) {
  struct reading *reading = argument;
  struct stat facts;
  hold(call, reading, open(reading->root, O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (reading->folder) hold(call, reading, openat(reading->held[0], reading->folder, OPEN | O_DIRECTORY));
  hold(call, reading,
       openat(reading->held[reading->count - 1], reading->name, OPEN | O_NONBLOCK)); /* a pipe does not wait */
  int file = reading->held[reading->count - 1];
  if (fstat(file, &facts)) unreadable(call, reading, errno);
  if (!S_ISREG(facts.st_mode))
    fail(call, PRECAST_CACHE_ERROR, "%s is not a regular file: " AGAIN, path_of(call, reading, reading->count - 1));
  for (int depth = 0; depth < reading->count; ++depth) {
    struct stat part;
    if (fstat(reading->held[depth], &part)) unreadable(call, reading, errno);
    refuse_strangers(call, reading, depth, &part);
  }
  size_t stated = facts.st_size < 0 ? 0 : (size_t)facts.st_size,
         room = (stated < reading->limit ? stated : reading->limit) + 1;
  size_t used = 0;
  char *data = take(call, room, 1);
  for (;;) {
    ssize_t got = used < room ? read(file, data + used, room - used) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) unreadable(call, reading, errno);
    used += (size_t)got;
    if (got == 0 && used < room) break;
    if (used < room) continue;
    if (room > reading->limit) break; /* longer than it may be */
    size_t more =
        room * 2 < reading->limit + 1 ? room * 2 : reading->limit + 1; /* it grew, or does not state its size */
    char *larger = take(call, more, 1);
    memcpy(larger, data, used);
    data = larger, room = more;
  }
  reading->data = (struct text){data, used};
}

struct text read_file(struct call *call, const char *root, const char *folder, const char *name, size_t limit,
                      bool exact) {
  struct reading reading = {.root = root, .folder = folder, .name = name, .limit = limit};
  bool done = attempt(call, read_it, &reading);
  for (int i = 0; i < reading.count; ++i) close(reading.held[i]);
  if (!done) fail_again(call);
  if (reading.data.size > limit || (exact && reading.data.size != limit))
    fail(call, PRECAST_INTEGRITY_ERROR, "%s/%s%s%s is damaged: it should have %s%zu bytes: " AGAIN, root,
         folder ? folder : "", folder ? "/" : "", name, exact ? "" : "at most ", limit);
  return reading.data;
}
