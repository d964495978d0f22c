/* Typed getters for JSON that may be wrong: each error names the place in the file. */
#ifndef PRECAST_FIELDS_H
#define PRECAST_FIELDS_H

#include "json.h"

/* A value and the way to it. value is NULL where the place is empty. */
struct node {
  struct call *call;
  const struct json *value;
  const struct node *outer;
  struct text name;
  int64_t position; /* in a list; -1 under a name */
};

struct node root_of(struct call *call, const struct json *value);
struct node at(const struct node *object, const char *name);
struct node item(const struct node *list, size_t position);
struct node entry(const struct node *object, size_t position);

_Noreturn void refuse(const struct node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The name of a value's type, as errors call it. */
const char *type_name(const struct json *value);

/* Each returns the value, or fails. */
const struct node *object(const struct node *node, size_t most);
const struct node *list(const struct node *node, size_t most);
struct text string(const struct node *node);
bool truth(const struct node *node);
int64_t count_of(const struct node *node, int64_t most);

/* A text that is of a form, such as is_digest. */
struct text formed(const struct node *node, bool (*form)(struct text), const char *what);

/* A text out of a list that ends with NULL. */
struct text one_of(const struct node *node, const char *const words[]);

/* The object, which may have no other keys than these, which end with NULL. */
const struct node *known(const struct node *node, const char *const names[]);

bool is_name(struct text text); /* of a config key, an axis, a fact */
bool is_op_name(struct text text);
bool is_cache_name(struct text text);
bool is_digest(struct text text);
bool is_symbol(struct text text);
bool is_soname(struct text text);
bool is_glibc(struct text text);
bool is_key_type(struct text text);

#endif
