/* Configs as people read them: in errors as Python shows them, on one line as YAML reads them. */
#include "config.h"
#include "fields.h"

void put_value(struct builder *builder, const struct json *value) {
  switch (value->kind) {
  case JSON_NULL:
    return put(builder, "None");
  case JSON_BOOL:
    return put(builder, value->truth ? "True" : "False");
  case JSON_TEXT:
    return put_quoted(builder, json_text(value));
  case JSON_LIST:
    put(builder, "(");
    for (size_t i = 0; i < value->size; ++i) {
      if (i) put(builder, ", ");
      put_value(builder, &value->items[i]);
    }
    return put(builder, value->size == 1 ? ",)" : ")");
  default:
    return put_json(builder, value);
  }
}

const char *shown(struct call *call, const struct json *value) {
  struct builder builder = {.call = call};
  put_value(&builder, value);
  return built(&builder);
}

static void put_plainly(struct builder *builder, const struct json *value) {
  static const char *const words[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  if (value->kind == JSON_LIST) {
    put(builder, "[");
    for (size_t i = 0; i < value->size; ++i) {
      if (i) put(builder, ", ");
      put_plainly(builder, &value->items[i]);
    }
    return put(builder, "]");
  }
  bool bare = value->kind == JSON_TEXT && is_symbol(json_text(value));
  for (size_t i = 0; bare && i < sizeof words / sizeof *words; ++i) bare = !is(json_text(value), words[i]);
  if (bare) {
    put_text(builder, json_text(value));
  } else {
    put_json(builder, value);
  }
}

void put_config(struct builder *builder, const struct json *config) {
  put(builder, "{");
  for (size_t i = 0; i < config->size; ++i) {
    if (i) put(builder, ", ");
    put_text(builder, config->members[i].name);
    put(builder, ": ");
    put_plainly(builder, &config->members[i].value);
  }
  put(builder, "}");
}
