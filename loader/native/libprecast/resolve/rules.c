/* Rules: why an artifact cannot serve a request on a machine. loader/resolve/rules.py has the same rules. */
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "resolve.h"

#define FFI    "apache-tvm-ffi"
#define REMEDY "build it with this GPU among the manifest's 'profiles', or here with --profile-from-device"
#define UPDATE "update the driver, or build it for the target with a kernel that does not ask"

/* Begin a reason; a separator ends the one before. */
static struct builder *reason(struct builder *reasons, size_t *count) {
  if ((*count)++) put(reasons, "; ");
  return reasons;
}

static void meaning(struct builder *reasons, size_t *count, const struct artifact *artifact,
                    const struct requirements *required) {
  bool differs = false;
  for (size_t i = 0; i < required->count; ++i) {
    struct text name = required->keys[i].name;
    if (serves(required, i, artifact->config, artifact->signature)) continue;
    const struct json *found = find(artifact->config, name);
    if (differs) {
      put(reasons, "; ");
    } else {
      reason(reasons, count);
    }
    differs = true;
    if (!found) {
      put(reasons, "its config has no %.*s", (int)name.size, name.data);
      continue;
    }
    put(reasons, "%.*s is ", (int)name.size, name.data);
    put_value(reasons, found);
    put(reasons, ", not ");
    put_value(reasons, required->values[i]);
  }
}

static void described(struct builder *reasons, size_t *count, const struct artifact *artifact,
                      const struct requirements *required) {
  bool unknown = false;
  for (size_t i = 0; i < artifact->config->size; ++i) {
    struct text name = artifact->config->members[i].name;
    size_t key = 0;
    while (key < required->count && !equal(required->keys[key].name, name)) ++key;
    if (key < required->count) continue;
    if (unknown) {
      put(reasons, ", ");
    } else {
      put(reason(reasons, count), "its config has keys that its op does not declare: ");
    }
    unknown = true;
    put_text(reasons, name);
  }
}

static void architecture(struct builder *reasons, size_t *count, const struct artifact *artifact,
                         const struct machine *machine) {
  const char *target = artifact->target_name.data;
  int size = (int)artifact->target_name.size;
  if (!machine->has_capability) {
    put(reason(reasons, count), "built for %.*s, and there is no CUDA device here", size, target);
  } else if (!runs_on(artifact->target, machine->capability)) {
    put(reason(reasons, count), "built for %.*s, ", size, target);
    if (machine->target) {
      put(reasons, "%s was requested", machine->target);
    } else {
      put(reasons, "this GPU is %d.%d", machine->capability.major, machine->capability.minor);
    }
  }
}

static bool older(struct version one, struct version other) {
  return one.major < other.major || (one.major == other.major && one.minor < other.minor);
}

static void hosts(struct builder *reasons, size_t *count, const struct artifact *artifact, const struct index *index,
                  const struct machine *machine) {
  if (!artifact->has_host) return;
  struct text arch = artifact->host.arch;
  struct version needed = artifact->host.glibc;
  bool has_runtime = false;
  if (!equal(arch, machine->arch))
    put(reason(reasons, count), "built for %.*s hosts, this one is %.*s", (int)arch.size, arch.data,
        (int)machine->arch.size, machine->arch.data);
  for (size_t i = 0; i < index->runtime_count; ++i) {
    if (!equal(index->runtimes[i].host.arch, arch)) continue;
    has_runtime = true;
    if (older(needed, index->runtimes[i].host.glibc)) needed = index->runtimes[i].host.glibc;
  }
  if (older(machine->glibc, needed))
    put(reason(reasons, count), "needs glibc %d.%d, this host has %d.%d", needed.major, needed.minor,
        machine->glibc.major, machine->glibc.minor);
  if (artifact->object && !has_runtime) put(reason(reasons, count), "its cache has no runtime library for its host");
}

/* Whether an entry of a toolchain is the toolkit that the compiler's libraries were made with: that of all hosts, or of
 * one. */
static bool is_cuda(struct text name) { return is(name, "cuda") || begins(name, "cuda["); }

static void toolchain(struct builder *reasons, size_t *count, const struct index *index,
                      const struct machine *machine) {
  for (size_t i = 0; machine->driver.major && i < index->toolchain->size; ++i) {
    const struct member *one = &index->toolchain->members[i];
    struct version made = is_cuda(one->name) ? version_of(json_text(&one->value)) : (struct version){0, 0};
    if (machine->driver.major < made.major) {
      put(reason(reasons, count), "made with CUDA %d.%d, this driver is for CUDA %d.%d", made.major, made.minor,
          machine->driver.major, machine->driver.minor);
      break;
    }
  }
  const struct json *made = find(index->toolchain, TEXT(FFI));
  if (machine->ffi->absent) {
    put(reason(reasons, count),
        "needs " FFI ", which is not installed (%s): pip install " FFI
        ", and name its libtvm_ffi.so in PRECAST_TVM_FFI or precast_options",
        machine->ffi->absent);
  } else if (made) {
    struct version version = version_of(json_text(made)), here = machine->ffi->version;
    const char *text = quoted(reasons->call, json_text(made));
    if (version.major != here.major || version.minor != here.minor)
      put(reason(reasons, count), "made with " FFI " %.*s, %s is installed", (int)strlen(text) - 2, text + 1,
          machine->ffi->name);
  }
}

static bool has_word(const struct json *entry, const char *name, struct text word) {
  const struct json *found = find(entry, text_of(name));
  return found && found->kind == JSON_TEXT && equal(json_text(found), word);
}

/* The GPU and the date of an entry. Evidence may have any form. */
static void put_where(struct builder *reasons, const struct json *entry, bool emulated) {
  size_t before = reasons->size;
  if (emulated) put(reasons, "emulation");
  for (int i = emulated; i < 2; ++i) {
    const struct json *fact = find(entry, text_of((const char *[]){"gpu", "date"}[i]));
    if (!fact || fact->kind != JSON_TEXT || !fact->size) continue;
    const char *text = quoted(reasons->call, json_text(fact));
    put(reasons, "%s%.*s", reasons->size > before ? ", " : "", (int)strlen(text) - 2, text + 1);
  }
  if (reasons->size == before) put(reasons, "a GPU");
}

static const char *first_of(struct call *call, const struct json *failed) {
  if (!failed || failed->kind != JSON_LIST || !failed->size || failed->items[0].kind != JSON_TEXT)
    return "its evidence does not say how";
  const char *text = quoted(call, json_text(&failed->items[0]));
  return format(call, "%.*s", (int)strlen(text) - 2, text + 1);
}

static int by_text(const void *one, const void *other) {
  return compare(*(const struct text *)one, *(const struct text *)other);
}

/* The capabilities on which an artifact was verified. */
static const char *elsewhere(struct call *call, const struct json *evidence) {
  size_t count = 0, entries = evidence ? evidence->size : 0;
  struct text *found = take(call, entries, sizeof *found);
  struct builder list = {.call = call};
  for (size_t i = 0; i < entries; ++i) {
    const struct json *capability = find(&evidence->items[i], TEXT("capability"));
    if (capability && capability->kind == JSON_TEXT && has_word(&evidence->items[i], "check", TEXT("verify")))
      found[count++] = json_text(capability);
  }
  qsort(found, count, sizeof *found, by_text);
  for (size_t i = 0; i < count; ++i) {
    if (i && equal(found[i], found[i - 1])) continue;
    const char *text = quoted(call, found[i]);
    put(&list, "%s%.*s", list.size ? ", " : ", only on ", (int)strlen(text) - 2, text + 1);
  }
  return built(&list);
}

/* How many entries of a check there are, on a GPU of a capability or, where that is NULL, by emulation. If one of them
 * failed, that is a reason. */
static size_t proofs(struct builder *reasons, size_t *count, const struct json *evidence, const char *capability) {
  bool emulated = !capability;
  size_t passed = 0;
  for (size_t i = 0; evidence && i < evidence->size; ++i) {
    const struct json *entry = &evidence->items[i], *failed = find(entry, TEXT("failed"));
    if (!has_word(entry, "check", emulated ? TEXT("emulate") : TEXT("verify"))) continue;
    if (capability && !has_word(entry, "capability", text_of(capability))) continue;
    ++passed;
    if (failed && failed->kind == JSON_LIST && !failed->size) continue;
    put(reason(reasons, count), "found wrong %s ", emulated ? "by" : "on");
    put_where(reasons, entry, emulated);
    put(reasons, ": %s", first_of(reasons->call, failed));
    return passed;
  }
  return passed;
}

/* An artifact counts as verified on a capability where 'precast verify' passed on such a GPU, and failed on none; or,
 * if emulation suffices, where it was on no such GPU and passed emulated. */
static void verified(struct builder *reasons, size_t *count, const struct artifact *artifact,
                     const struct machine *machine, bool emulated) {
  const char *here = format(reasons->call, "%d.%d", machine->capability.major, machine->capability.minor);
  if (machine->has_capability && proofs(reasons, count, artifact->evidence, here)) return;
  if (emulated && proofs(reasons, count, artifact->evidence, NULL)) return;
  const char *others = elsewhere(reasons->call, artifact->evidence);
  if (!machine->has_capability) here = "None";
  if (emulated)
    put(reason(reasons, count), "never emulated, nor verified on a GPU of %s%s: run 'precast verify CACHE --emulate'",
        here, others);
  else
    put(reason(reasons, count), "never verified on a GPU of %s%s: run 'precast verify CACHE --record' on one", here,
        others);
}

/* The facts that differ from those that were compiled in, as text; NULL if none does. */
static const char *differing(struct call *call, const struct json *built_in, const struct machine *machine,
                             bool *known) {
  struct builder builder = {.call = call};
  *known = false;
  for (size_t i = 0; i < built_in->size; ++i) {
    const struct member *fact = &built_in->members[i];
    int64_t number = 0;
    const char *here = fact_of(call, machine->asked, machine->device, fact->name, &number);
    bool is_text = here && *here;
    if (here && (is_text ? fact->value.kind == JSON_TEXT && is(json_text(&fact->value), here)
                         : fact->value.kind == JSON_INT && fact->value.number == number))
      continue;
    put(&builder, "%sbuilt for a GPU whose %.*s is ", builder.size ? "; " : "", (int)fact->name.size, fact->name.data);
    put_value(&builder, &fact->value);
    if (!here) {
      put(&builder, ", and the driver cannot tell this one's");
    } else if (is_text) {
      put(&builder, ", this one's is %s", quoted(call, text_of(here)));
    } else {
      put(&builder, ", this one's is %lld", (long long)number);
    }
    *known = *known || here;
  }
  return builder.size ? built(&builder) : NULL;
}

const char *unmet(struct call *call, const struct artifact *artifact, const struct machine *machine) {
  bool known;
  const char *wrong = artifact->needs && machine->asked ? differing(call, artifact->needs, machine, &known) : NULL;
  return wrong ? format(call, "%s: %s", wrong, known ? REMEDY : UPDATE) : NULL;
}

const char *slower(struct call *call, const struct artifact *artifact, const struct machine *machine) {
  bool known;
  const char *wrong = artifact->speed && machine->asked ? differing(call, artifact->speed, machine, &known) : NULL;
  return wrong ? format(call, "%s, which may cost speed: " REMEDY, wrong) : NULL;
}

const char *objections(struct call *call, const struct artifact *artifact, const struct requirements *required,
                       const struct index *index, const struct machine *machine, size_t *count) {
  struct builder reasons = {.call = call};
  *count = 0;
  meaning(&reasons, count, artifact, required);
  described(&reasons, count, artifact, required);
  if (!artifact->object && !artifact->program)
    put(reason(&reasons, count), "a cubin without a host program: it is for tools to read and cannot be launched");
  architecture(&reasons, count, artifact, machine);
  hosts(&reasons, count, artifact, index, machine);
  toolchain(&reasons, count, index, machine);
  if (required->verified) verified(&reasons, count, artifact, machine, required->verified == EMULATED);
  if (!*count) { /* the driver is queried last */
    const char *wrong = unmet(call, artifact, machine);
    if (wrong) put(reason(&reasons, count), "%s", wrong);
  }
  return *count ? built(&reasons) : NULL;
}
