// The start: in a program that an observed process starts, and at the request of Python's observer.
#include "log.h"
#include "variables.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LONGEST 4096

extern char **environ;
static char library[LONGEST], location[LONGEST], root[LONGEST], preload[2 * LONGEST];

typedef int (*audit_hook)(const char *, void *, void *);

static int set(char *out, const char *text, size_t length) {
  if (length >= LONGEST) return 0;
  memcpy(out, text, length);
  out[length] = 0;
  return 1;
}

// A variable's value, which is taken out of the environment: what the process passes on is added where it does so.
static const char *taken(const char *name) {
  for (char **at = environ; at && *at; at++)
    if (!strncmp(*at, name, strlen(name))) {
      const char *value = *at + strlen(name);
      for (char **next = at; (*next = next[1]); next++) {
      }
      return value;
    }
  return NULL;
}

// LD_PRELOAD without this library, as it was before precast set it.
static void restore_preload(void) {
  for (char **at = environ; at && *at; at++) {
    if (strncmp(*at, PRELOAD, strlen(PRELOAD))) continue;
    const char *own = strstr(*at, library);
    if (!own || own[strlen(library)]) return;
    size_t length = (size_t)(own - *at);
    if (length <= strlen(PRELOAD)) {
      taken(PRELOAD);
    } else if (length < sizeof preload) {
      memcpy(preload, *at, length - 1); // without the colon
      *at = preload;
    }
    return;
  }
}

// Python raises an event before it runs what it was started for: there its own observer is installed.
static int on_event(const char *event, void *arguments, void *data) {
  static int done;
  (void)arguments, (void)data;
  if (done || strncmp(event, "cpython.run_", 12)) return 0;
  done = 1;
  int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
  if (!run) return 0;
  static char code[LONGEST + 256];
  snprintf(code, sizeof code,
           "exec('''\nimport sys\nsys.path.insert(0, %c%s%c)\ntry:\n"
           "    from precast.build.child.observe.native.started_python import observe_started\n"
           "finally:\n    del sys.path[0]\nobserve_started()\n''', {})",
           '"', root, '"');
  static char guarded[sizeof code + 128];
  snprintf(guarded, sizeof guarded, "try:\n    %s\nexcept Exception: pass\n", code);
  run(guarded);
  return 0;
}

static int begun_in_python(void) {
  int (*add)(audit_hook, void *) = (int (*)(audit_hook, void *))dlsym(RTLD_DEFAULT, "PySys_AddAuditHook");
  if (!add) return 0;
  if (!strpbrk(root, "\"'\\\n")) add(on_event, NULL);
  return 1;
}

// The dynamic linker opens libraries by calls of its own. Those of the system are left out.
static int note_library(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size, (void)data;
  const char *name = object->dlpi_name;
  if (!name || *name != '/' || !strcmp(name, library)) return 0;
  if (!strncmp(name, "/lib", 4) || !strncmp(name, "/usr/lib", 8) || !strncmp(name, "/proc/", 6)) return 0;
  struct about about = {.kind = OPENED};
  precast_event(&about, name, strlen(name));
  return 0;
}

static int is_python; // its own observer reports what it loads

// The program ends: it may have loaded more.
__attribute__((destructor)) static void end(void) {
  if (precast_state.program && precast_active() && !is_python) dl_iterate_phdr(note_library, NULL);
}

static void begin(void) {
  char name[LONGEST];
  long length = KERNEL(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", name, sizeof name);
  struct about about = {.kind = BEGUN, .failed = is_python = begun_in_python()};
  if (length > 0) precast_event(&about, name, (size_t)length);
  if (!is_python) dl_iterate_phdr(note_library, NULL);
}

__attribute__((constructor)) static void start(void) {
  Dl_info own;
  if (!dladdr((void *)(uintptr_t)&precast_map, &own) || !own.dli_fname || *own.dli_fname != '/') return;
  if (!set(library, own.dli_fname, strlen(own.dli_fname))) return;
  restore_preload();
  const char *value = taken(OBSERVER);
  const char *first = value ? strchr(value, ':') : NULL, *second = first ? strchr(first + 1, ':') : NULL;
  if (!second || !set(location, first + 1, (size_t)(second - first - 1)) || !set(root, second + 1, strlen(second + 1)))
    return;
  int file = (int)KERNEL(SYS_openat, AT_FDCWD, location, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  precast_state.origin = (uint32_t)strtoul(value, NULL, 10);
  precast_state.moved = first[-1] == *MOVED ? -1 : 0;
  precast_state.program = 1;
  precast_state.library = library, precast_state.location = location, precast_state.root = root;
  if (!precast_map(file)) begin();
  KERNEL(SYS_close, file);
}

// The rest is for Python's observer, by ctypes.

EXPORT int precast_observer_log(int file, const char *path, const char *folder);
int precast_observer_log(int file, const char *path, const char *folder) {
  if (!*library || !set(location, path, strlen(path)) || !set(root, folder, strlen(folder))) return -1;
  precast_state.library = library, precast_state.location = location, precast_state.root = root;
  return precast_map(file);
}

EXPORT void precast_observer_note(const char *text, size_t length);
void precast_observer_note(const char *text, size_t length) {
  struct about about = {.kind = PYTHON};
  precast_event(&about, text, length);
}

EXPORT uint32_t precast_observer_origin(uint32_t origin);
uint32_t precast_observer_origin(uint32_t origin) {
  uint32_t before = precast_origin;
  precast_origin = precast_state.origin == HIDDEN ? HIDDEN : origin;
  return before;
}

EXPORT int precast_observer_moved(void);
int precast_observer_moved(void) { return precast_moved(); }

EXPORT const char *precast_observer_library(void);
const char *precast_observer_library(void) { return library; }

static int find_interpreter(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  uintptr_t at = (uintptr_t)data, from = UINTPTR_MAX, until = 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    if (object->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr, end = start + object->dlpi_phdr[i].p_memsz;
    from = start < from ? start : from, until = end > until ? end : until;
  }
  if (at < from || at >= until) return 0;
  precast_state.quiet_from = from, precast_state.quiet_until = until;
  return 1;
}

static int find_loads(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  *(unsigned long long *)data = object->dlpi_adds;
  return 1;
}

// How many libraries were loaded since the process began.
EXPORT unsigned long long precast_observer_loads(void);
unsigned long long precast_observer_loads(void) {
  unsigned long long loads = 0;
  dl_iterate_phdr(find_loads, &loads);
  return loads;
}

// From now on, what the interpreter itself queries is left to the observer of Python.
EXPORT void precast_observer_quiet(void);
void precast_observer_quiet(void) { dl_iterate_phdr(find_interpreter, dlsym(RTLD_DEFAULT, "Py_IsInitialized")); }
