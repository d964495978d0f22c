/* The functions of precast.h: each makes a call, runs it in an attempt, and hands its error out as text. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cubin.h"
#include "host_program.h"
#include "kernel.h"
#include "library.h"

#define NAMED 1024 /* the most characters of an op */

void precast_free(char *text) { free(text); }

int32_t precast_abi(void) { return PRECAST_ABI; }

/* End a call: its memory goes, its error becomes a text of its own. */
static precast_status finish(struct call *call, bool done, char **error) {
  if (error) *error = done ? NULL : strdup(call->message);
  precast_status status = done ? PRECAST_OK : call->status;
  arena_free(call->memory);
  return status;
}

/* A struct of the caller, whose program may know less of it than this library, or more, if that is 0. */
static void take_struct(struct call *call, const void *given, size_t stated, void *own, size_t size, const char *what) {
  if (stated < sizeof(size_t) || stated > (1 << 16))
    fail(call, PRECAST_WRONG_REQUEST, "the size in %s is %zu: set it to sizeof(%s)", what, stated, what);
  memcpy(own, given, stated < size ? stated : size);
  for (size_t i = size; i < stated; ++i)
    if (((const char *)given)[i])
      fail(call, PRECAST_WRONG_REQUEST, "%s asks for what this library does not know: use a newer libprecast", what);
}

struct opening {
  const char *folder;
  const precast_options *options;
  struct precast_table *table;
};

static const char *copied(struct call *call, const char *text) { return text ? terminated(call, text_of(text)) : NULL; }

static void open_folder(struct call *call, void *argument) {
  struct opening *opening = argument;
  struct precast_table *table = opening->table;
  precast_options options = {0};
  struct stat facts;
  if (opening->options)
    take_struct(call, opening->options, opening->options->size, &options, sizeof options, "precast_options");
  if (!opening->folder || !*opening->folder)
    fail(call, PRECAST_WRONG_REQUEST, "there is no folder to open: give the one that 'precast native CACHE -o' made");
  table->driver.path = copied(call, options.cuda), table->ffi.path = copied(call, options.tvm_ffi);
  table->path = copied(call, opening->folder);
  if (stat(table->path, &facts) || !S_ISDIR(facts.st_mode))
    fail(call, PRECAST_CACHE_ERROR,
         "%s is not a folder that can be read: give the one that 'precast native CACHE -o' made", table->path);
  read_table(call, table, options.sha256);
}

static void drop(struct precast_table *table) {
  if (__atomic_sub_fetch(&table->references, 1, __ATOMIC_ACQ_REL)) return;
  arena_free(&table->memory);
  pthread_mutex_destroy(&table->lock);
  free(table);
}

precast_status precast_open(const char *folder, const precast_options *options, precast_table **table, char **error) {
  struct arena memory = {0};
  struct call call = {
      .memory = &memory, .message = "there is not enough memory: free some", .status = PRECAST_OUT_OF_MEMORY};
  struct opening opening = {folder, options, calloc(1, sizeof **table)};
  bool done = false;
  *table = NULL;
  if (opening.table) {
    opening.table->references = 1;
    pthread_mutex_init(&opening.table->lock, NULL);
    done = attempt_in(&call, &opening.table->memory, open_folder, &opening);
    if (done) {
      *table = opening.table;
    } else {
      drop(opening.table);
    }
  }
  return finish(&call, done, error);
}

void precast_close(precast_table *table) {
  if (table) drop(table);
}

struct asking {
  struct precast_table *table;
  const precast_request *given;
  struct machine machine;
  const struct line *line;
  const struct artifact *chosen;
  struct precast_kernel *kernel;
};

struct parsing {
  const char *text;
  const struct json *value;
};

static void parse(struct call *call, void *argument) {
  struct parsing *parsing = argument;
  parsing->value = parse_json(call, text_of(parsing->text));
}

/* A JSON object of the caller. */
static const struct json *config_of(struct call *call, const char *text, const char *what) {
  struct parsing parsing = {text, NULL};
  if (!attempt(call, parse, &parsing)) {
    if (call->status != PRECAST_CACHE_ERROR) fail_again(call);
    fail(call, PRECAST_WRONG_REQUEST, "the %s: %s: give a JSON object, such as {\"dtype\": \"bfloat16\"}", what,
         call->message);
  }
  const struct json *value = parsing.value;
  if (value->kind != JSON_OBJECT)
    fail(call, PRECAST_WRONG_REQUEST, "the %s is %s, not an object: give one, such as {\"dtype\": \"bfloat16\"}", what,
         type_name(value));
  return value;
}

static const struct json *problem_of(struct call *call, const char *text) {
  const struct json *value = config_of(call, text, "problem");
  for (size_t i = 0; i < value->size; ++i) {
    const struct json *size = &value->members[i].value;
    if (size->kind != JSON_INT || size->number < 0)
      fail(call, PRECAST_WRONG_REQUEST, "%s is not a size: give the problem's sizes by name, such as {\"m\": 4096}",
           quoted(call, size->source));
  }
  return value;
}

/* Look the request up, and the machine to run it on. */
static void ask(struct call *call, struct asking *asking) {
  precast_request given = {0};
  if (!asking->given) fail(call, PRECAST_WRONG_REQUEST, "the request is NULL: give a precast_request");
  take_struct(call, asking->given, asking->given->size, &given, sizeof given, "precast_request");
  if (!given.op) fail(call, PRECAST_WRONG_REQUEST, "the request names no op: set op");
  if (strnlen(given.op, NAMED) == NAMED)
    fail(call, PRECAST_WRONG_REQUEST, "the request's op is longer than any: correct it");
  if (given.device < 0)
    fail(call, PRECAST_WRONG_REQUEST, "%d is not a device: give 1 more than its number, or 0 for the current one",
         given.device);
  struct line request = {.op = text_of(given.op),
                         .config = config_of(call, given.config ? given.config : "{}", "config")};
  if (given.problem) request.problem = problem_of(call, given.problem);
  asking->line = line_for(call, asking->table, &request);
  asking->machine = machine_of(call, &asking->table->driver, &asking->table->ffi, given.target, given.device - 1);
}

/* Take the first kernel that this machine runs. Of those for its target, one that was built for a GPU like this comes
 * before one that may be slower. */
static void choose(struct call *call, struct asking *asking) {
  const struct machine *machine = &asking->machine;
  const struct json *kernels = asking->line->kernels;
  const char *op = terminated(call, asking->line->op);
  struct builder refused = {.call = call};
  bool any = false;
  for (size_t i = 0; i < kernels->size; ++i) {
    const struct artifact *artifact = &asking->table->artifacts[kernels->items[i].number];
    if (any && !equal(asking->chosen->target_name, artifact->target_name)) continue;
    const char *why = objections(call, artifact, machine);
    if (why) {
      put(&refused, "\n  %s for %s, %.12s: %s", artifact->object ? "object" : "cubin",
          terminated(call, artifact->target_name), artifact->key.data, why);
      continue;
    }
    bool slower = is_slower(call, artifact, machine);
    if (!any || !slower) asking->chosen = artifact, any = true;
    if (!slower) return;
  }
  if (any) return;
  if (!machine->has_capability)
    fail(call, PRECAST_NO_CUDA_DEVICE,
         "%s: there is no CUDA device: %s. Run this where there is one, or give a target such as sm_90a to look up a"
         " kernel for an architecture",
         op, machine->absent);
  struct builder text = {.call = call};
  put_machine(&text, machine);
  fail(call, PRECAST_VARIANT_NOT_FOUND,
       "no kernel of the table for this request of %s runs here (%s):%s\nRun 'precast native' with a --target for this"
       " machine, of a cache that was built for it",
       op, built(&text), built(&refused));
}

/* The arguments that a caller passes. */
static void keep_names(struct call *call, struct precast_kernel *kernel) {
  const struct json *arguments = find(kernel->artifact->signature, TEXT("arguments"));
  kernel->names = take(call, arguments->size, sizeof *kernel->names);
  for (size_t i = 0; i < arguments->size; ++i) {
    const struct json *argument = &arguments->items[i];
    if (!is(json_text(find(argument, TEXT("kind"))), "env_stream"))
      kernel->names[kernel->name_count++] = terminated(call, json_text(find(argument, TEXT("name"))));
  }
}

static void make_kernel(struct call *call, void *argument) {
  struct asking *asking = argument;
  struct precast_kernel *kernel = asking->kernel;
  const struct artifact *chosen = kernel->artifact = asking->chosen;
  if (chosen->object) {
    kernel->entry = (TVMFFISafeCallType)open_entry(call, asking->table, chosen);
  } else {
    kernel->entry = host_program_call;
    kernel->self = open_program(call, asking->table, chosen);
  }
  kernel->op = terminated(call, asking->line->op);
  kernel->config = terminated(call, chosen->config->source);
  kernel->signature = terminated(call, chosen->signature->source);
  kernel->key = terminated(call, chosen->key), kernel->target = terminated(call, chosen->target_name);
  keep_names(call, kernel);
  kernel->device = asking->machine.device;
  kernel->ready = asking->machine.asked != NULL;
}

static void get_locked(struct call *call, void *argument) {
  struct asking *asking = argument;
  ask(call, asking);
  choose(call, asking);
  if (!attempt_in(call, &asking->kernel->memory, make_kernel, asking)) fail_again(call);
}

precast_status precast_get(precast_table *table, const precast_request *request, precast_kernel **kernel,
                           char **error) {
  struct asking asking = {.table = table, .given = request, .kernel = calloc(1, sizeof **kernel)};
  struct arena memory = {0};
  struct call call = {
      .memory = &memory, .message = "there is not enough memory: free some", .status = PRECAST_OUT_OF_MEMORY};
  bool done = false;
  *kernel = NULL;
  if (asking.kernel) {
    pthread_mutex_lock(&table->lock);
    done = attempt(&call, get_locked, &asking);
    pthread_mutex_unlock(&table->lock);
  }
  if (done) {
    __atomic_add_fetch(&table->references, 1, __ATOMIC_RELAXED);
    asking.kernel->table = table;
    *kernel = asking.kernel;
  } else if (asking.kernel) {
    arena_free(&asking.kernel->memory);
    free(asking.kernel);
  }
  return finish(&call, done, error);
}

void precast_release(precast_kernel *kernel) {
  if (!kernel) return;
  drop(kernel->table);
  arena_free(&kernel->memory);
  free(kernel);
}

const char *precast_key(const precast_kernel *kernel) { return kernel->key; }
const char *precast_config(const precast_kernel *kernel) { return kernel->config; }
const char *precast_signature(const precast_kernel *kernel) { return kernel->signature; }
const char *precast_target(const precast_kernel *kernel) { return kernel->target; }

precast_status precast_call(precast_kernel *kernel, const precast_value *arguments, size_t count, void *stream,
                            char **error) {
  struct arena memory = {0};
  struct call call = {.memory = &memory};
  jmp_buf here;
  call.escape = &here;
  bool done = setjmp(here) == 0;
  if (done) launch_kernel(&call, kernel, arguments, count, stream);
  return finish(&call, done, error);
}
