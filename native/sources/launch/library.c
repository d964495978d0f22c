#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRY  "__tvm_ffi_"
#define MEMORY "/proc/self/fd/"
#define OPENED "/proc/self/md/" /* the linker's name of what was opened there; there is no such folder */
#define TRIES  3
#define SEALS  (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define PATH   (sizeof MEMORY + 2 * 4 * DIGEST + 16)

/* A library that is open, by its digest and that of its runtime library. None is ever closed: a stream may still run
 * its code. */
struct opened {
  char sha256[DIGEST + 1], runtime[DIGEST + 1];
  void *handle;
  struct opened *next;
};

/* The dynamic linker's tables belong to the process, and so does this one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *libraries;

static void *known_library(const char *sha256, const char *runtime) {
  for (struct opened *one = libraries; one; one = one->next)
    if (!strcmp(one->sha256, sha256) && !strcmp(one->runtime, runtime)) return one->handle;
  return NULL;
}

static void keep(const char *sha256, const char *runtime, void *handle) {
  struct opened *one = calloc(1, sizeof *one);
  if (!one) return; /* it is opened once more then: a second copy of the same code */
  memcpy(one->sha256, sha256, DIGEST);
  memcpy(one->runtime, runtime, DIGEST);
  one->handle = handle, one->next = libraries, libraries = one;
}

/* A digest as a path that stays in the same folder: '/' for a bit that is 0, './' for a bit that is 1. */
static void digest_path(const char *folder, const char *sha256, char *path) {
  path += sprintf(path, "%s", folder);
  for (int i = 0; i < DIGEST; ++i) {
    int value = sha256[i] <= '9' ? sha256[i] - '0' : sha256[i] - 'a' + 10;
    for (int bit = 3; bit >= 0; --bit) path += sprintf(path, value >> bit & 1 ? "./" : "/");
  }
}

static struct link_map *map_of(void *handle) {
  struct link_map *map = NULL;
  return handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map : NULL;
}

/* Whether a library is the one of a path in MEMORY; its own path becomes the one in OPENED. */
static bool renamed(struct link_map *map, const char *path) {
  size_t folder = strlen(MEMORY);
  bool first = map && !strcmp(map->l_name, path);
  if (first) memcpy(map->l_name, OPENED, folder);
  return first || (map && !strncmp(map->l_name, OPENED, folder) && !strcmp(map->l_name + folder, path + folder));
}

/* A file in memory that holds some bytes and can never hold others; -1 with errno. */
static int memory_file(struct text code, const char *label) {
  int file = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  for (size_t written = 0; file >= 0 && written < code.size;) {
    ssize_t more = write(file, code.data + written, code.size - written);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) {
      int error = errno;
      close(file);
      return errno = error, -1;
    }
    written += (size_t)more;
  }
  if (file >= 0 && fcntl(file, F_ADD_SEALS, SEALS)) {
    int error = errno;
    close(file);
    return errno = error, -1;
  }
  return file;
}

/* The linker's words, with the label in place of the path. */
_Noreturn static void refused(struct call *call, const char *path, const char *label) {
  const char *error = dlerror(), *place = error ? strstr(error, path) : NULL;
  if (!error) error = "no reason";
  if (!place) fail(call, PRECAST_LOAD_ERROR, "the dynamic linker refused %s: %s. Check 'precast doctor'", label, error);
  fail(call, PRECAST_LOAD_ERROR, "the dynamic linker refused %s: %.*s%s%s. Check 'precast doctor'", label,
       (int)(place - error), error, label, place + strlen(path));
}

/* Give bytes to the dynamic linker through a sealed memory file, which is closed again once they are mapped.
 *
 * The linker knows an open library by its path, and would return the library that had a descriptor's number before. So
 * the path spells the digest: equal paths then mean equal bytes. It also knows a library by its file's inode, whose
 * numbers begin again on old kernels; so it is asked which library it returned, and a file with another inode is tried.
 *
 * Code that lists the open libraries gets that path, and reads symbols from it, as TVM-FFI does for the traceback of an
 * error. The number is another file's by then, and reading an empty file ends the process with a bus error. So the path
 * is replaced by one that does not exist.
 */
static void *open_bytes(struct call *call, struct text code, const char *sha256, const char *label) {
  int held[TRIES], count = 0, error = 0;
  char path[PATH];
  void *handle = NULL;
  bool taken = false;
  digest_path(MEMORY, sha256, path);
  size_t end = strlen(path);
  while (count < TRIES && !taken) {
    int file = memory_file(code, label);
    if (file < 0) {
      error = errno;
      break;
    }
    held[count++] = file;
    snprintf(path + end, sizeof path - end, "%d", file);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) break;
    taken = renamed(map_of(handle), path);
  }
  for (int i = 0; i < count; ++i) close(held[i]);
  if (error)
    fail(
        call, PRECAST_LOAD_ERROR,
        "this system gives no memory files (%s): libraries are opened from one, so that nothing executable is written to"
        " disk; free some memory, or allow memfd_create (sysctl vm.memfd_noexec, seccomp profile)",
        strerror(error));
  if (!handle) refused(call, path, label);
  if (!taken)
    fail(call, PRECAST_LOAD_ERROR,
         "the dynamic linker takes %s for a library that is open already: restart the process", label);
  return handle;
}

/* Open a runtime library. The linker finds it by its name alone, so one name must not have two contents. */
static void open_runtime(struct call *call, struct precast_table *table, const struct artifact *artifact) {
  const char *soname = terminated(call, artifact->soname), *sha256 = terminated(call, artifact->beside.sha256);
  struct text code = bytes_once(call, table, &artifact->beside);
  if (!code.data) return;
  void *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!handle) {
    open_bytes(call, code, sha256, format(call, "precast:%s", soname));
    handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
  char path[PATH];
  digest_path(OPENED, sha256, path);
  const struct link_map *map = map_of(handle);
  if (!map || strncmp(map->l_name, path, strlen(path)))
    fail(call, PRECAST_LOAD_ERROR,
         "%s of %s differs from the one of that name that is already open: " AGAIN
         ", or use it in a process of its own",
         soname, table->path);
  mark_checked(call, table, artifact->beside.sha256);
}

/* A symbol of the library itself: one of a library that it needs is refused. */
static void *address(struct call *call, void *handle, const char *sha256, const char *symbol) {
  void *found = dlsym(handle, symbol);
  const struct link_map *map = map_of(handle);
  Dl_info place;
  if (!found || !map || !dladdr(found, &place) || place.dli_fbase != (void *)map->l_addr)
    fail(call, PRECAST_LOAD_ERROR, "the library %.12s has no symbol %s: rebuild the cache, and " AGAIN, sha256, symbol);
  return found;
}

struct opening {
  struct precast_table *table;
  const struct artifact *artifact;
  void *entry;
};

static void open_locked(struct call *call, void *argument) {
  struct opening *opening = argument;
  struct precast_table *table = opening->table;
  const struct artifact *artifact = opening->artifact;
  const char *symbol = terminated(call, artifact->symbol), *sha256 = terminated(call, artifact->code.sha256);
  const char *of_runtime = terminated(call, artifact->beside.sha256);
  struct text code = bytes_once(call, table, &artifact->code); /* before anything is opened: it may be damaged */
  open_runtime(call, table, artifact);
  void *handle = known_library(sha256, of_runtime);
  if (!handle) {
    const char *label = format(call, "precast:%.80s-%.8s", symbol + sizeof ENTRY - 1, artifact->key.data);
    if (!code.data) code = read_blob(call, table, &artifact->code);
    handle = open_bytes(call, code, sha256, label);
    keep(sha256, of_runtime, handle);
  }
  if (code.data) mark_checked(call, table, artifact->code.sha256);
  opening->entry = address(call, handle, sha256, symbol);
}

void *open_entry(struct call *call, struct precast_table *table, const struct artifact *artifact) {
  if (!begins(artifact->symbol, ENTRY))
    fail(call, PRECAST_LOAD_ERROR, "%s is not a TVM-FFI entry (" ENTRY "...): " AGAIN,
         terminated(call, artifact->symbol));
  struct opening opening = {table, artifact, NULL};
  pthread_mutex_lock(&lock);
  bool done = attempt(call, open_locked, &opening);
  pthread_mutex_unlock(&lock);
  if (!done) fail_again(call);
  return opening.entry;
}
