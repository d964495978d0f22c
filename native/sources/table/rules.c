/* Rules: why an artifact cannot run on a machine. loader/resolve/rules.py has the same rules about machines; what a
 * request means was decided when the table was made. */
#include "facts.h"
#include "table.h"

#define FFI    "apache-tvm-ffi"
#define REMEDY "build it with this GPU among the manifest's 'profiles', or here with --profile-from-device"
#define UPDATE "update the driver, or build it for the target with a kernel that does not ask"

/* Begin a reason; a separator ends the one before. */
static struct builder *reason(struct builder *reasons) {
  if (reasons->size) put(reasons, "; ");
  return reasons;
}

static void architecture(struct builder *reasons, const struct artifact *artifact, const struct machine *machine) {
  const char *target = terminated(reasons->call, artifact->target_name);
  if (!machine->has_capability) {
    put(reason(reasons), "built for %s, and there is no CUDA device here", target);
  } else if (!runs_on(artifact->target, machine->capability)) {
    put(reason(reasons), "built for %s, ", target);
    if (machine->target) {
      put(reasons, "%s was requested", machine->target);
    } else {
      put(reasons, "this GPU is %d.%d", machine->capability.major, machine->capability.minor);
    }
  }
}

static void host(struct builder *reasons, const struct artifact *artifact, const struct machine *machine) {
  struct version needed = artifact->glibc;
  if (!artifact->object) return;
  if (!equal(artifact->arch, machine->arch))
    put(reason(reasons), "built for %s hosts, this one is %s", terminated(reasons->call, artifact->arch),
        terminated(reasons->call, machine->arch));
  if (is_older(machine->glibc, needed))
    put(reason(reasons), "needs glibc %d.%d, this host has %d.%d", needed.major, needed.minor, machine->glibc.major,
        machine->glibc.minor);
}

static void toolchain(struct builder *reasons, const struct artifact *artifact, const struct machine *machine) {
  struct version cuda = version_of(artifact->cuda), made = version_of(artifact->ffi), here = machine->ffi->version;
  if (machine->driver.major && machine->driver.major < cuda.major)
    put(reason(reasons), "made with CUDA %d.%d, this driver is for CUDA %d.%d", cuda.major, cuda.minor,
        machine->driver.major, machine->driver.minor);
  if (machine->ffi->absent) {
    put(reason(reasons),
        "needs " FFI ", which is not installed (%s): pip install " FFI
        ", and name its libtvm_ffi.so in PRECAST_TVM_FFI or precast_options",
        machine->ffi->absent);
  } else if (artifact->ffi.size && (made.major != here.major || made.minor != here.minor)) {
    put(reason(reasons), "made with " FFI " %d.%d, %s is installed", made.major, made.minor, machine->ffi->name);
  }
}

/* The facts that differ from those that were compiled in, as text; NULL if none does. */
static const char *differing(struct call *call, const struct json *built_in, const struct machine *machine,
                             bool *known) {
  struct builder builder = {.call = call};
  *known = false;
  for (size_t i = 0; i < built_in->size; ++i) {
    const struct member *fact = &built_in->members[i];
    bool is_text = fact->value.kind == JSON_TEXT;
    int64_t number = 0;
    const char *here = fact_of(call, machine->asked, machine->device, fact->name, &number);
    if (here && (is_text ? is(json_text(&fact->value), here) : !*here && fact->value.number == number)) continue;
    put(reason(&builder), "built for a GPU whose %s is ", terminated(call, fact->name));
    if (is_text) {
      put_quoted(&builder, json_text(&fact->value));
    } else {
      put(&builder, "%lld", (long long)fact->value.number);
    }
    if (!here) {
      put(&builder, ", and the driver cannot tell this one's");
    } else if (*here) {
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

bool is_slower(struct call *call, const struct artifact *artifact, const struct machine *machine) {
  bool known;
  return artifact->speed && machine->asked && differing(call, artifact->speed, machine, &known);
}

const char *objections(struct call *call, const struct artifact *artifact, const struct machine *machine) {
  struct builder reasons = {.call = call};
  architecture(&reasons, artifact, machine);
  host(&reasons, artifact, machine);
  toolchain(&reasons, artifact, machine);
  return reasons.size ? built(&reasons) : unmet(call, artifact, machine); /* the driver is asked last */
}
