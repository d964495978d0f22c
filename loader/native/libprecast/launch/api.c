/* The functions of precast.h: each makes a call, runs it in an attempt, and hands its error out as text. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cubin.h"
#include "host_program.h"
#include "kernel.h"
#include "library.h"

#define SHOWN 300 /* candidates of an error's text */
#define NAMED 1024

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
  const precast_options *options;
  struct precast_caches *caches;
};

static const char *copied(struct call *call, const char *text) { return text ? terminated(call, text_of(text)) : NULL; }

static void open_one(struct call *call, void *argument) {
  struct opening *opening = argument;
  struct cache *cache = &opening->caches->caches[opening->caches->count];
  open_cache(call, cache, opening->options->pins);
}

static void open_all(struct call *call, void *argument) {
  struct opening *opening = argument;
  struct precast_caches *caches = opening->caches;
  precast_options options = {0};
  if (opening->options)
    take_struct(call, opening->options, opening->options->size, &options, sizeof options, "precast_options");
  if (!options.search) options.search = getenv("PRECAST_CACHE_PATH");
  if (!options.pins) options.pins = getenv("PRECAST_PIN");
  opening->options = &options;
  caches->driver.path = copied(call, options.cuda), caches->ffi.path = copied(call, options.tvm_ffi);
  caches->zstd.path = copied(call, options.zstd);
  const char *search = options.search ? options.search : "";
  size_t most = 1;
  for (const char *c = search; *c; ++c) most += *c == ':';
  caches->caches = take(call, most, sizeof *caches->caches);
  for (const char *end; *search; search = *end ? end + 1 : end) {
    for (end = search; *end && *end != ':'; ++end) {
    }
    if (end == search) continue;
    struct cache *cache = &caches->caches[caches->count];
    cache->path = terminated(call, (struct text){search, (size_t)(end - search)});
    cache->zstd = &caches->zstd;
    if (!attempt_in(call, &cache->memory, open_one, opening)) fail_again(call);
    ++caches->count;
  }
  if (!caches->count)
    fail(call, PRECAST_WRONG_REQUEST,
         "there is no cache to open: name its folder in precast_options, or in PRECAST_CACHE_PATH");
}

static void drop(struct precast_caches *caches) {
  if (__atomic_sub_fetch(&caches->references, 1, __ATOMIC_ACQ_REL)) return;
  for (size_t i = 0; i < caches->count; ++i) {
    struct cache *cache = &caches->caches[i];
    for (struct listed *one = cache->ops, *next; one; one = next) {
      next = one->next;
      arena_free(&one->memory);
      free(one);
    }
    arena_free(&cache->memory);
  }
  arena_free(&caches->memory);
  pthread_mutex_destroy(&caches->lock);
  free(caches);
}

precast_status precast_open(const precast_options *options, precast_caches **caches, char **error) {
  struct arena memory = {0};
  struct call call = {
      .memory = &memory, .message = "there is not enough memory: free some", .status = PRECAST_OUT_OF_MEMORY};
  struct opening opening = {options, calloc(1, sizeof **caches)};
  bool done = false;
  *caches = NULL;
  if (opening.caches) {
    opening.caches->references = 1;
    pthread_mutex_init(&opening.caches->lock, NULL);
    done = attempt_in(&call, &opening.caches->memory, open_all, &opening);
    if (done) {
      *caches = opening.caches;
    } else {
      drop(opening.caches);
    }
  }
  return finish(&call, done, error);
}

void precast_close(precast_caches *caches) {
  if (caches) drop(caches);
}

struct asking {
  struct precast_caches *caches;
  const precast_request *given;
  struct request request;
  struct resolution resolution;
  bool full;
  struct precast_kernel *kernel;
  char *text;
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
static const struct json *object_of(struct call *call, const char *text, const char *what) {
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

static void ask(struct call *call, void *argument) {
  struct asking *asking = argument;
  precast_request given = {0};
  if (!asking->given) fail(call, PRECAST_WRONG_REQUEST, "the request is NULL: give a precast_request");
  take_struct(call, asking->given, asking->given->size, &given, sizeof given, "precast_request");
  if (!given.op) fail(call, PRECAST_WRONG_REQUEST, "the request names no op: set op");
  if (strnlen(given.op, NAMED) == NAMED)
    fail(call, PRECAST_WRONG_REQUEST, "the request's op is longer than any: correct it");
  if (given.device < 0)
    fail(call, PRECAST_WRONG_REQUEST, "%d is not a device: give 1 more than its number, or 0 for the current one",
         given.device);
  struct request *request = &asking->request;
  request->op = text_of(given.op);
  request->config = object_of(call, given.config ? given.config : "{}", "config");
  request->problem = given.problem ? object_of(call, given.problem, "problem") : NULL;
  for (size_t i = 0; request->problem && i < request->problem->size; ++i) {
    const struct json *size = &request->problem->members[i].value;
    if (size->kind != JSON_INT || size->number < 0)
      fail(call, PRECAST_WRONG_REQUEST, "%s is not a size: give the problem's sizes by name, such as {\"m\": 4096}",
           shown(call, size));
  }
  request->target = given.target, request->device = given.device - 1;
  request->verified = given.verified == PRECAST_VERIFIED_EMULATED ? EMULATED : given.verified ? ON_GPU : ANY;
  asking->resolution = resolve(call, asking->caches, request, asking->full);
}

static void keep_names(struct call *call, struct precast_kernel *kernel) {
  const struct json *arguments = find(kernel->artifact.signature, TEXT("arguments"));
  kernel->names = take(call, arguments->size, sizeof *kernel->names);
  for (size_t i = 0; i < arguments->size; ++i) {
    const struct json *argument = &arguments->items[i];
    if (!is(json_text(find(argument, TEXT("kind"))), "env_stream"))
      kernel->names[kernel->name_count++] = terminated(call, json_text(find(argument, TEXT("name"))));
  }
}

/* All that a kernel keeps is copied into its own memory, so that the caches may go. */
static void make_kernel(struct call *call, void *argument) {
  struct asking *asking = argument;
  struct precast_kernel *kernel = asking->kernel;
  const struct candidate *chosen = &asking->resolution.accepted[0];
  struct builder config = {.call = call}, signature = {.call = call}, needs = {.call = call};
  struct cache *cache = &asking->caches->caches[chosen->cache];
  if (chosen->artifact.object) {
    kernel->entry = (TVMFFISafeCallType)open_entry(call, cache, &chosen->artifact);
  } else {
    kernel->entry = host_program_call;
    kernel->self = open_program(call, asking->caches, cache, asking->request.op, &chosen->artifact);
  }
  kernel->op = terminated(call, asking->request.op);
  put_json(&config, chosen->artifact.config);
  put_json(&signature, chosen->artifact.signature);
  kernel->config = built(&config), kernel->signature = built(&signature);
  kernel->key = terminated(call, chosen->artifact.key);
  kernel->target = terminated(call, chosen->artifact.target_name);
  kernel->artifact = (struct artifact){.key = text_of(kernel->key), .target_name = text_of(kernel->target)};
  kernel->artifact.target = chosen->artifact.target;
  kernel->artifact.signature = parse_json(call, text_of(kernel->signature));
  if (chosen->artifact.needs) {
    put_json(&needs, chosen->artifact.needs);
    kernel->artifact.needs = parse_json(call, text_of(built(&needs)));
  }
  keep_names(call, kernel);
  kernel->device = asking->resolution.machine.device;
  kernel->ready = asking->resolution.machine.asked != NULL;
}

_Noreturn static void refuse_all(struct call *call, const struct asking *asking) {
  const struct machine *machine = &asking->resolution.machine;
  if (!machine->has_capability)
    fail(
        call, PRECAST_NO_CUDA_DEVICE,
        "%.*s: there is no CUDA device: %s. Run this where there is one, or give a target such as sm_90a to resolve for an"
        " architecture",
        (int)asking->request.op.size, asking->request.op.data, machine->absent);
  struct builder text = {.call = call};
  put_resolution(&text, asking->caches, &asking->resolution, SHOWN);
  fail(call, PRECAST_VARIANT_NOT_FOUND, "no variant fits\n%s", built(&text));
}

static void get_locked(struct call *call, void *argument) {
  struct asking *asking = argument;
  ask(call, asking);
  if (!asking->resolution.accepted_count) {
    asking->full = true;
    ask(call, asking);
    refuse_all(call, asking);
  }
  if (!attempt_in(call, &asking->kernel->memory, make_kernel, asking)) fail_again(call);
}

static void explain_locked(struct call *call, void *argument) {
  struct asking *asking = argument;
  struct builder text = {.call = call};
  asking->full = true;
  ask(call, asking);
  put_resolution(&text, asking->caches, &asking->resolution, SIZE_MAX);
  asking->text = strdup(built(&text));
  if (!asking->text) fail(call, PRECAST_OUT_OF_MEMORY, "there is not enough memory: free some");
}

static precast_status locked(struct asking *asking, body *run, char **error) {
  struct arena memory = {0};
  struct call call = {.memory = &memory};
  pthread_mutex_lock(&asking->caches->lock);
  bool done = attempt(&call, run, asking);
  pthread_mutex_unlock(&asking->caches->lock);
  return finish(&call, done, error);
}

precast_status precast_get(precast_caches *caches, const precast_request *request, precast_kernel **kernel,
                           char **error) {
  struct asking asking = {.caches = caches, .given = request, .kernel = calloc(1, sizeof **kernel)};
  *kernel = NULL;
  if (!asking.kernel) {
    if (error) *error = strdup("there is not enough memory: free some");
    return PRECAST_OUT_OF_MEMORY;
  }
  precast_status status = locked(&asking, get_locked, error);
  if (status) {
    arena_free(&asking.kernel->memory);
    free(asking.kernel);
    return status;
  }
  __atomic_add_fetch(&caches->references, 1, __ATOMIC_RELAXED);
  asking.kernel->caches = caches;
  *kernel = asking.kernel;
  return PRECAST_OK;
}

precast_status precast_explain(precast_caches *caches, const precast_request *request, char **text, char **error) {
  struct asking asking = {.caches = caches, .given = request};
  precast_status status = locked(&asking, explain_locked, error);
  *text = asking.text;
  return status;
}

void precast_release(precast_kernel *kernel) {
  if (!kernel) return;
  drop(kernel->caches);
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
