/* Configs: the keys of an op, and the one form of each value. */
#ifndef PRECAST_CONFIG_H
#define PRECAST_CONFIG_H

#include "json.h"

struct key {
  struct text name, type;
  bool tuned, has_default;
  struct json otherwise; /* the default */
  const struct json *choices;
  size_t choice_count;
};

/* The evidence that a request requires: none, that of a GPU, or that of a GPU or else of an emulation. */
enum verified { ANY, ON_GPU, EMULATED };

/* What a request asks of each key of an op; NULL where the key is free. */
struct requirements {
  const struct key *keys;
  const struct json **values;
  size_t count;
  enum verified verified;
};

/* A value as configs have it, in *out. Returns why it is none, or NULL. */
const char *plain_value(struct call *call, const struct json *value, struct json *out);

/* A request in the terms of an op; fails where the op does not take it. */
struct requirements requirements_of(struct call *call, struct text op, const struct key *keys, size_t count,
                                    const struct json *config, enum verified verified);

/* Whether a config, as it is found in a file, has what is required for a key. */
bool matches(const struct requirements *required, size_t key, const struct json *config);
/* Whether it serves for a key: it matches, or it only says that the kernel, by its signature, has one more output: a
 * bool key that is false by default, and an argument of its name that is written. */
bool serves(const struct requirements *required, size_t key, const struct json *config, const struct json *signature);
/* Whether it also writes every dtype as the request does. */
bool literal(const struct requirements *required, const struct json *config);

/* Equal in value and type. */
bool same(const struct json *one, const struct json *other);

/* A value as errors show it, and a config on one line. */
void put_value(struct builder *builder, const struct json *value);
void put_config(struct builder *builder, const struct json *config);
const char *shown(struct call *call, const struct json *value);

/* "; did you mean 'x'?", or the list of the words; empty where there is none. */
const char *suggest(struct call *call, struct text word, const struct text *words, size_t count);

#endif
