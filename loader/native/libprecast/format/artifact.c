#include "artifact.h"

#include <string.h>

#include "program.h"

#define TARGET  "a target: write it like 'sm_90a', 'sm_100a', 'sm_100f' or 'sm_80'"
#define LARGEST ((int64_t)1 << 31)

bool parse_target(struct text text, struct target *target) {
  if (!begins(text, "sm_")) return false;
  struct text number = {text.data + 3, text.size - 3};
  char last = text.data[text.size - 1], suffix = number.size && (last == 'a' || last == 'f') ? last : 0;
  if (suffix) --number.size;
  if (number.size < 2 || number.size > 3 || number.data[0] == '0') return false;
  int value = 0;
  for (size_t i = 0; i < number.size; ++i) {
    if (number.data[i] < '0' || number.data[i] > '9') return false;
    value = value * 10 + (number.data[i] - '0');
  }
  *target = (struct target){value / 10, value % 10, suffix};
  return true;
}

/* Orin and Thor: CUDA promises no binary compatibility between these and other GPUs. */
static bool is_tegra(int major, int minor) { return (major == 8 && minor == 7) || (major == 11 && minor == 0); }

bool runs_on(struct target target, struct version capability) {
  if (capability.major != target.major) return false;
  bool exact =
      target.suffix == 'a' || is_tegra(target.major, target.minor) || is_tegra(capability.major, capability.minor);
  return exact ? capability.minor == target.minor : capability.minor >= target.minor;
}

int target_rank(struct target target) {
  return (target.suffix == 'a' ? 0 : target.suffix == 'f' ? 1 : 2) * 16 - target.minor;
}

static void check_facts(const struct node *node) {
  object(node, 256);
  for (size_t i = 0; i < node->value->size; ++i) {
    struct node one = entry(node, i);
    bool sound =
        one.value->kind == JSON_INT || (one.value->kind == JSON_TEXT && one.value->size > 0 && one.value->size <= 256);
    for (size_t n = 0; sound && one.value->kind == JSON_TEXT && n < one.value->size; ++n)
      sound = one.value->data[n] >= ' ' && one.value->data[n] <= '~'; /* no GPU reports other texts */
    if (!sound) refuse(&one, "expected a number or a text");
    if (!is_name(one.name)) refuse(&one, "not the name of a fact");
  }
}

static void read_assumptions(const struct node *node, struct artifact *artifact) {
  known(node, (const char *[]){"needs", "speed", NULL});
  struct node needs = at(node, "needs"), speed = at(node, "speed");
  check_facts(&needs);
  check_facts(&speed);
  for (size_t i = 0; i < speed.value->size; ++i) {
    struct node one = entry(&speed, i);
    if (find(needs.value, one.name)) refuse(&one, "the fact is also in needs");
  }
  if (!needs.value->size && !speed.value->size) refuse(node, "expected at least one fact");
  artifact->needs = needs.value, artifact->speed = speed.value;
}

static void check_resources(const struct node *node) {
  list(node, 256);
  for (size_t i = 0; i < node->value->size; ++i) {
    struct node one = item(node, i), kernel = at(&one, "kernel");
    known(&one, (const char *[]){"kernel", "registers", "shared", "stack", "local", NULL});
    string(&kernel);
    for (int n = 0; n < 4; ++n) {
      struct node size = at(&one, (const char *[]){"registers", "shared", "stack", "local"}[n]);
      count_of(&size, LARGEST);
    }
  }
}

static void check_config(const struct node *node) {
  object(node, 256);
  for (size_t i = 0; i < node->value->size; ++i) {
    struct node one = entry(node, i);
    struct json value;
    const char *why = plain_value(node->call, one.value, &value);
    if (why) refuse(&one, "%s", why);
    if (!is_name(one.name)) refuse(&one, "not a config key");
  }
}

static struct artifact read(const struct node *node) {
  static const char *const names[] = {"key",     "config",  "target",    "host",      "kind",       "blob",
                                      "symbol",  "rank",    "signature", "resources", "provenance", "evidence",
                                      "assumes", "program", "ptx",       NULL};
  known(node, names);
  struct node assumes = at(node, "assumes"), program = at(node, "program");
  struct artifact artifact = {0};
  struct node key = at(node, "key"), config = at(node, "config"), target = at(node, "target"), kind = at(node, "kind");
  struct node blob = at(node, "blob"), symbol = at(node, "symbol"), signature = at(node, "signature");
  struct node host = at(node, "host"), rank = at(node, "rank"), resources = at(node, "resources");
  struct node provenance = at(node, "provenance"), evidence = at(node, "evidence"), ptx = at(node, "ptx");
  artifact.key = formed(&key, is_digest, "a SHA-256 digest");
  check_config(&config);
  artifact.config = config.value;
  if (!target.value) refuse(&target, "missing");
  if (target.value->kind != JSON_TEXT || !parse_target(json_text(target.value), &artifact.target))
    refuse(&target, "%s is not " TARGET, shown(node->call, target.value));
  artifact.target_name = json_text(target.value);
  artifact.object = is(one_of(&kind, (const char *[]){"object", "cubin", NULL}), "object");
  artifact.blob = read_blob(&blob);
  artifact.symbol = formed(&symbol, is_symbol, "a symbol name");
  if (!signature.value) refuse(&signature, "missing");
  check_signature(&signature);
  artifact.signature = signature.value;
  if (!host.value) refuse(&host, "missing");
  artifact.has_host = host.value->kind != JSON_NULL;
  if (artifact.has_host) artifact.host = read_host(&host);
  artifact.rank = count_of(&rank, LARGEST);
  if (resources.value) check_resources(&resources);
  if (provenance.value) object(&provenance, UINT32_MAX);
  if (evidence.value) {
    list(&evidence, 256);
    for (size_t i = 0; i < evidence.value->size; ++i) {
      struct node one = item(&evidence, i);
      object(&one, UINT32_MAX);
    }
    artifact.evidence = evidence.value;
  }
  if (assumes.value) read_assumptions(&assumes, &artifact);
  if (ptx.value) read_blob(&ptx); /* for tools: it is not opened */
  if (artifact.object && !artifact.has_host) refuse(&host, "an object needs its host");
  if (program.value) {
    if (artifact.object) refuse(&program, "only a cubin has a host program");
    check_program(&program, artifact.signature);
  }
  artifact.program = program.value;
  return artifact;
}

struct artifact read_artifact(struct call *call, const struct op *op, size_t position) {
  const char *file = format(call, "ops/%s.json:", terminated(call, op->name));
  struct node root = {.call = call, .position = -1};
  struct node of_file = {.call = call, .outer = &root, .name = text_of(file), .position = -1};
  struct node rows = {.call = call, .value = op->rows, .outer = &of_file, .name = TEXT("artifacts"), .position = -1};
  struct node row = item(&rows, position);
  return read(&row);
}
