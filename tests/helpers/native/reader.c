/* Asks libprecast what its standard input asks, a line each, and answers with a line: for tests, which start it in a
 * process of its own, with sanitizers. Fields are separated by 0x1f; an empty one is NULL. */
#include <dlpack/dlpack.h>
#include <precast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND, FOLDER, SHA256, CUDA, OP, CONFIG, PROBLEM, TARGET, DEVICE, ARGUMENTS, FIELDS };
enum { MOST = 80, RANK = 40 };

static void answer(int status, const char *text) {
  printf("%d\x1f", status);
  for (; text && *text; ++text) putchar(*text == '\n' ? '\x1e' : *text);
  putchar('\n');
  fflush(stdout);
}

/* Call a kernel with arguments such as "i-5 b1 f0.5 n t1:0:2:32:1:4096;17,4;4,1": of a tensor its device's type and
 * number, the code, bits and lanes of its dtype, its address, its shape and its strides. */
static int call(precast_kernel *kernel, char *text, char **error) {
  precast_value values[MOST] = {0};
  DLTensor tensors[MOST] = {0};
  int64_t sizes[MOST][2][RANK] = {0};
  size_t count = 0;
  for (char *word; count < MOST && (word = strsep(&text, " ")); ++count) {
    precast_value *value = &values[count];
    DLTensor *t = &tensors[count];
    char *rest = word + 1;
    value->kind = *word == 'i'   ? PRECAST_INT
                  : *word == 'b' ? PRECAST_BOOL
                  : *word == 'f' ? PRECAST_FLOAT
                                 : PRECAST_NONE;
    if (*word == 'i' || *word == 'b') value->as.integer = strtoll(rest, NULL, 10);
    if (*word == 'f') value->as.real = strtod(rest, NULL);
    if (*word != 't') continue;
    int64_t facts[6] = {0};
    for (int i = 0; i < 6; ++i) facts[i] = strtoll(rest, &rest, 10), ++rest;
    for (int which = 0; which < 2; ++which) {
      t->ndim = 0;
      do sizes[count][which][t->ndim++] = strtoll(rest, &rest, 10);
      while (*rest++ == ',' && t->ndim < RANK);
    }
    t->device.device_type = (DLDeviceType)facts[0], t->device.device_id = (int32_t)facts[1];
    t->dtype.code = (uint8_t)facts[2], t->dtype.bits = (uint8_t)facts[3], t->dtype.lanes = (uint16_t)facts[4];
    t->data = (void *)(intptr_t)facts[5], t->shape = sizes[count][0], t->strides = sizes[count][1];
    value->kind = PRECAST_TENSOR, value->as.tensor = t;
  }
  return precast_call(kernel, values, count, (void *)0x5150, error);
}

static void serve(char *fields[FIELDS]) {
  precast_options options = {.size = sizeof options, .sha256 = fields[SHA256], .cuda = fields[CUDA]};
  precast_table *table = NULL;
  precast_kernel *kernel = NULL;
  char *error = NULL;
  int status = precast_open(fields[FOLDER], &options, &table, &error);
  if (status || !strcmp(fields[COMMAND], "open")) {
    answer(status, error);
  } else {
    precast_request request = {.size = sizeof request, .op = fields[OP], .config = fields[CONFIG]};
    request.problem = fields[PROBLEM], request.target = fields[TARGET];
    request.device = fields[DEVICE] ? atoi(fields[DEVICE]) : 0;
    status = precast_get(table, &request, &kernel, &error);
    precast_close(table); /* the kernel outlives it */
    table = NULL;
    if (!status && !strcmp(fields[COMMAND], "call")) status = call(kernel, fields[ARGUMENTS], &error);
    answer(status, status ? error : precast_key(kernel));
  }
  precast_close(table);
  precast_release(kernel);
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
