// Variables of programs that are started.
#include "variables.h"
#include "log.h"

#include <string.h>

static int is_named(const char *variable, const char *prefix) { return !strncmp(variable, prefix, strlen(prefix)); }

struct sizes precast_sizes(char *const *given) {
  struct sizes sizes = {0, 0};
  if (!precast_active() || !precast_state.library) return sizes;
  sizes.text = sizeof PRELOAD + sizeof OBSERVER + strlen(precast_state.library) + strlen(precast_state.location) +
               strlen(precast_state.root) + sizeof MOVED + 32;
  for (; given && given[sizes.count]; sizes.count++)
    if (is_named(given[sizes.count], PRELOAD)) sizes.text += strlen(given[sizes.count]) + 1;
  return sizes;
}

static char *appended(char *to, const char *text) {
  size_t length = strlen(text);
  memcpy(to, text, length + 1);
  return to + length;
}

static char *appended_number(char *to, uint32_t value) {
  char digits[12];
  int count = 0;
  do digits[count++] = (char)('0' + value % 10);
  while (value /= 10);
  while (count) *to++ = digits[--count];
  *to = 0;
  return to;
}

char **precast_variables(char **out, char *text, char *const *given) {
  if (!precast_active() || !precast_state.library) return (char **)(size_t)given;
  size_t count = 0;
  const char *preload = NULL;
  for (size_t i = 0; given && given[i]; i++) {
    if (is_named(given[i], PRELOAD))
      preload = given[i] + strlen(PRELOAD);
    else if (!is_named(given[i], OBSERVER))
      out[count++] = given[i];
  }
  out[count++] = text;
  text = appended(text, PRELOAD);
  if (preload && *preload) text = appended(appended(text, preload), ":");
  text = appended(text, precast_state.library) + 1;
  out[count++] = text;
  text = appended_number(appended(text, OBSERVER), precast_origin ? precast_origin : precast_state.origin);
  text = appended(text, precast_moved() ? MOVED ":" : ":");
  appended(appended(appended(text, precast_state.location), ":"), precast_state.root);
  out[count] = NULL;
  return out;
}
