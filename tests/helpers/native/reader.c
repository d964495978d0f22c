/* Asks libprecast what its standard input asks, a line each, and answers with a line: for tests, which start it in a
 * process of its own, with sanitizers. Fields are separated by 0x1f; an empty one is NULL. */
#include <precast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND, SEARCH, PINS, CUDA, ZSTD, OP, CONFIG, PROBLEM, TARGET, DEVICE, VERIFIED, FIELDS };

static void answer(int status, const char *text) {
  printf("%d\x1f", status);
  for (; text && *text; ++text) putchar(*text == '\n' ? '\x1e' : *text);
  putchar('\n');
  fflush(stdout);
}

static void serve(char *fields[FIELDS]) {
  precast_options options = {.size = sizeof options, .search = fields[SEARCH], .pins = fields[PINS], .cuda = fields[CUDA]};
  options.zstd = fields[ZSTD];
  precast_caches *caches = NULL;
  precast_kernel *kernel = NULL;
  char *error = NULL, *text = NULL;
  int status = precast_open(&options, &caches, &error);
  if (status || !strcmp(fields[COMMAND], "open")) {
    answer(status, error);
  } else {
    precast_request request = {.size = sizeof request, .op = fields[OP], .config = fields[CONFIG]};
    request.problem = fields[PROBLEM], request.target = fields[TARGET];
    request.device = fields[DEVICE] ? atoi(fields[DEVICE]) : 0, request.verified = fields[VERIFIED] != NULL;
    if (!strcmp(fields[COMMAND], "explain")) {
      status = precast_explain(caches, &request, &text, &error);
    } else {
      status = precast_get(caches, &request, &kernel, &error);
    }
    precast_close(caches); /* the kernel outlives it */
    caches = NULL;
    answer(status, status ? error : text ? text : precast_key(kernel));
  }
  precast_close(caches);
  precast_release(kernel);
  precast_free(text);
  precast_free(error);
}

int main(void) {
  char *line = NULL;
  size_t room = 0;
  for (ssize_t size; (size = getline(&line, &room, stdin)) > 0;) {
    char *fields[FIELDS] = {0}, *rest = line;
    line[size - 1] = 0;
    for (int i = 0; i < FIELDS && rest; ++i) {
      char *field = strsep(&rest, "\x1f");
      fields[i] = *field ? field : NULL;
    }
    serve(fields);
  }
  free(line);
  return 0;
}
