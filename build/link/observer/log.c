// The log of events: each takes its space by one atomic addition, and is complete when its mark is set.
#include "log.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <dlfcn.h>

#define MAGIC      0x707265636f627331u
#define LARGEST    9000
#define REMEMBERED 4096

struct header {
  uint64_t magic;
  uint64_t end;     // of what was claimed
  uint64_t lost;    // events that had no room
  uint64_t size;    // of the file
  uint64_t allowed; // the length of the folders that follow; 0 if everything may be read
};

struct event {
  uint32_t size; // of the whole event
  uint32_t complete;
  int32_t process, parent;
  uint32_t origin;
  uint8_t kind, failed, program, relative;
  uint64_t caller;
  int64_t stamp[4];
  uint32_t length, more_padding;
  char text[];
};

struct state precast_state;
void *precast_known_syscall;
_Thread_local uint32_t precast_origin;
static struct header *log_start;
static uint64_t remembered[REMEMBERED]; // the last events, by their digests: code may query the same a million times

void *precast_next(void **known, const char *name) {
  void *function = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (!function) __atomic_store_n(known, function = dlsym(RTLD_NEXT, name), __ATOMIC_RELAXED);
  return function;
}

int precast_active(void) { return log_start != NULL; }

// Whether this process, or the one that it is a copy of, is in another folder than the build. Between vfork and exec,
// what the copy changes here is the parent's memory: so it leaves its number.
int precast_moved(void) {
  int32_t moved = precast_state.moved;
  return moved && (moved < 0 || moved == KERNEL(SYS_getpid) || moved == KERNEL(SYS_getppid));
}

int precast_is_quiet(const void *caller) {
  uintptr_t at = (uintptr_t)caller;
  return at >= precast_state.quiet_from && at < precast_state.quiet_until;
}

int precast_map(int file) {
  struct stat facts;
  if (fstat(file, &facts) || facts.st_size < (off_t)sizeof(struct header)) return -1;
  struct header *start = mmap(NULL, (size_t)facts.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (start == MAP_FAILED) return -1;
  if (start->magic != MAGIC || start->size != (uint64_t)facts.st_size) {
    munmap(start, (size_t)facts.st_size);
    return -1;
  }
  log_start = start; // an earlier log stays mapped: another thread may be writing to it
  memset(remembered, 0, sizeof remembered);
  return 0;
}

const char *precast_allowed(size_t *length) {
  struct header *log = log_start;
  if (!log || !log->allowed) return NULL;
  *length = log->allowed;
  return (const char *)(log + 1);
}

static uint64_t mixed(uint64_t digest, const void *data, size_t length) {
  for (size_t i = 0; i < length; i++) digest = (digest ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
  return digest;
}

static int is_repeated(const struct about *about, const char *text, size_t length) {
  if (about->kind == MADE || about->kind == REMOVED || about->kind == RENAMED || about->kind == PYTHON) return 0;
  if (about->kind == LINKED) return 0;
  if (about->kind == EXECUTED || about->kind == REFUSED || about->kind == STARTED || about->kind == BEGUN) return 0;
  uint64_t facts[5] = {(uint64_t)about->kind, (uint64_t)about->failed, (uint64_t)(uintptr_t)about->caller,
                       precast_origin, (uint64_t)about->relative};
  uint64_t digest = mixed(mixed(0xcbf29ce484222325u, facts, sizeof facts), text, length) | 1;
  uint64_t *place = &remembered[(digest >> 20) % REMEMBERED];
  if (*place == digest) return 1;
  *place = digest;
  return 0;
}

void precast_event(const struct about *about, const char *text, size_t length) {
  struct header *log = log_start;
  if (!log || is_repeated(about, text, length)) return;
  size_t size = (sizeof(struct event) + length + 7) & ~(size_t)7;
  uint64_t at = length > LARGEST ? log->size : __atomic_fetch_add(&log->end, size, __ATOMIC_RELAXED);
  if (at + size > log->size) {
    __atomic_fetch_add(&log->lost, 1, __ATOMIC_RELAXED);
    return;
  }
  struct event *event = (struct event *)((char *)log + at);
  event->size = (uint32_t)size;
  event->process = (int32_t)KERNEL(SYS_getpid);
  event->parent = (int32_t)KERNEL(SYS_getppid);
  event->origin = precast_origin ? precast_origin : precast_state.origin;
  event->kind = (uint8_t)about->kind;
  event->failed = about->failed != 0;
  event->program = (uint8_t)precast_state.program;
  event->relative = about->relative != 0;
  event->caller = (uint64_t)(uintptr_t)about->caller;
  memcpy(event->stamp, about->stamp, sizeof event->stamp);
  event->length = (uint32_t)length;
  memcpy(event->text, text, length);
  __atomic_store_n(&event->complete, 1, __ATOMIC_RELEASE);
}

void precast_named(int kind, const void *caller, const char *name) {
  if (!precast_active() || !name || precast_is_quiet(caller)) return;
  int before = errno;
  struct about about = {.kind = kind, .caller = caller};
  precast_event(&about, name, strlen(name));
  errno = before;
}
