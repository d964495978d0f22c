// Variables of programs that are started: with them, the dynamic linker loads this library there, too.
#ifndef PRECAST_OBSERVER_VARIABLES_H
#define PRECAST_OBSERVER_VARIABLES_H

#include <stddef.h>

#define PRELOAD  "LD_PRELOAD="
#define OBSERVER "PRECAST_OBSERVER="
#define MOVED    "m" // after the origin: it is started in another folder

struct sizes {
  size_t count; // of variables
  size_t text;  // of the two that are added
};

struct sizes precast_sizes(char *const *given);
char **precast_variables(char **out, char *text, char *const *given);

// An environment for a program, on the stack: in a process between vfork and exec, no memory may be allocated.
#define WITH_OBSERVER(name, given)                                                                                     \
  struct sizes name##_sizes = precast_sizes(given);                                                                    \
  char *name##_out[name##_sizes.count + 3], name##_text[name##_sizes.text + 1];                                        \
  char **name = precast_variables(name##_out, name##_text, given)

#endif
