#include "cubin.h"

#include <stdlib.h>
#include <string.h>

#include "host_program.h"

/* An opened program, by what it is made of: its code, its cubin, and the libraries that it calls. None is ever closed:
 * a stream may still run its code. */
struct opened {
  char code[DIGEST + 1], cubin[DIGEST + 1];
  struct host_program_callees callees;
  struct host_program *program;
  struct opened *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *programs;

/* What a host program calls. Where there is no driver, nothing is: then no kernel comes to its launch. */
static struct host_program_callees callees_of(struct call *call, struct precast_table *table) {
  struct host_program_callees callees = {.raise = table->ffi.raise, .stream = table->ffi.stream};
  if (!open_driver(&table->driver)) return callees;
  for (int i = 0; i < HOST_PROGRAM_DRIVER_COUNT; ++i) {
    callees.driver[i] = driver_function(&table->driver, HOST_PROGRAM_DRIVER_NAMES[i]);
    if (!callees.driver[i])
      fail(
          call, PRECAST_LOAD_ERROR,
          "cubins are launched through a driver for CUDA 12.4 or newer, and this one has no %s: update it, or use objects",
          HOST_PROGRAM_DRIVER_NAMES[i]);
  }
  return callees;
}

struct opening {
  struct precast_table *table;
  const struct artifact *artifact;
  struct host_program *program;
};

static void open_locked(struct call *call, void *argument) {
  struct opening *opening = argument;
  const struct artifact *artifact = opening->artifact;
  const char *cubin = terminated(call, artifact->code.sha256), *program = terminated(call, artifact->beside.sha256);
  struct host_program_callees callees = callees_of(call, opening->table);
  struct text bytes = bytes_once(call, opening->table, &artifact->code);
  struct text code = bytes_once(call, opening->table, &artifact->beside);
  char error[256] = "";
  for (struct opened *one = programs; one && !opening->program; one = one->next)
    if (!strcmp(one->code, program) && !strcmp(one->cubin, cubin) && !memcmp(&one->callees, &callees, sizeof callees))
      opening->program = one->program;
  if (!opening->program) {
    if (!bytes.data) bytes = read_blob(call, opening->table, &artifact->code);
    if (!code.data) code = read_blob(call, opening->table, &artifact->beside);
    struct opened *made = calloc(1, sizeof *made);
    if (!made) fail(call, PRECAST_OUT_OF_MEMORY, "there is not enough memory: free some");
    made->program = host_program_open(code.data, code.size, bytes.data, bytes.size, &callees, error, sizeof error);
    if (!made->program) {
      free(made);
      fail(call, PRECAST_LOAD_ERROR, "%.12s: %s: rebuild the cache, and " AGAIN, artifact->key.data, error);
    }
    memcpy(made->code, program, DIGEST);
    memcpy(made->cubin, cubin, DIGEST);
    made->callees = callees, made->next = programs, programs = made;
    opening->program = made->program;
  }
  if (bytes.data) mark_checked(call, opening->table, artifact->code.sha256);
  if (code.data) mark_checked(call, opening->table, artifact->beside.sha256);
}

void *open_program(struct call *call, struct precast_table *table, const struct artifact *artifact) {
  struct opening opening = {table, artifact, NULL};
  pthread_mutex_lock(&lock);
  bool done = attempt(call, open_locked, &opening);
  pthread_mutex_unlock(&lock);
  if (!done) fail_again(call);
  return opening.program;
}
