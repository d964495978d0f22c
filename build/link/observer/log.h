// The log: a file in memory that all observed processes map, so that closed descriptors lose nothing.
#ifndef PRECAST_OBSERVER_LOG_H
#define PRECAST_OBSERVER_LOG_H

#include <stddef.h>
#include <stdint.h>

// Kinds of events. build/child/observe/native/log.py has the same letters.
enum {
  OPENED = 'o',   // for reading; failed or not
  MADE = 'm',     // opened, and created or emptied
  STATUS = 's',   // stat and its like
  ACCESS = 'a',   // whether it exists, and may be used
  LINK = 'l',     // where a link points to
  FOLDER = 'd',   // its names are listed
  REMOVED = 'u',  // a file or a folder
  RENAMED = 'r',  // the old name, a zero, the new name
  LINKED = 'k',   // the same, of a file that then has both names
  VARIABLE = 'v', // getenv
  EXECUTED = 'x', // this process becomes a program
  REFUSED = 'f',  // the same, in vain
  STARTED = 'p',  // a shell, whose number is unknown
  BEGUN = 'b',    // a program that has this library
  CLOCK = 'c',
  RANDOM = 'y',
  HOST = 'h',
  NETWORK = 'n',
  BARRED = 'z', // a path that is not declared, in a hermetic compilation
  PYTHON = 'P', // what the observer of Python in another process of the tree has noted
};

enum { HIDDEN = 1 }; // the origin of programs that do not count, nor do those that they start

// What one event is about, apart from its text.
struct about {
  int kind;
  int failed;
  int relative; // its path is relative to the working folder of the build
  const void *caller;
  int64_t stamp[4]; // of an opened file: time of change, size, number, time of the last change of these facts
};

struct state {
  int program;                       // whether it was started as a program of its own
  int32_t moved;                     // the process that last changed its working folder; -1: before it was a program
  uint32_t origin;                   // which request of Python started this program
  const char *library;               // the path of this library
  const char *location;              // of the log, for programs that are started
  const char *root;                  // from where a Python imports its observer
  uintptr_t quiet_from, quiet_until; // the interpreter's code, whose requests Python's own observer notes
};
extern struct state precast_state;
extern _Thread_local uint32_t precast_origin; // for what this thread starts next

int precast_active(void);
int precast_moved(void);
int precast_is_quiet(const void *caller);
void precast_event(const struct about *about, const char *text, size_t length);
void precast_named(int kind, const void *caller, const char *name);
int precast_map(int file);

// The folders that a hermetic compilation may read, each with a zero at its end; NULL if it may read everything.
const char *precast_allowed(size_t *length);

#define CALLER __builtin_return_address(0)
#define EXPORT __attribute__((visibility("default")))

// The function of the next library in the order of loading. It is looked up once.
void *precast_next(void **known, const char *name);
// The kernel's call, past this library's own function, which notes such calls.
extern void *precast_known_syscall;
#define KERNEL(...) (((long (*)(long, ...))precast_next(&precast_known_syscall, "syscall"))(__VA_ARGS__))
#define NEXT(type, name)                                                                                               \
  static void *known_##name;                                                                                           \
  __typeof__(type) real = (__typeof__(type))precast_next(&known_##name, #name)

#endif
