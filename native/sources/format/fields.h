/* Typed getters for JSON that may be invalid: each error has the path of the value in the file. */
#ifndef PRECAST_FIELDS_H
#define PRECAST_FIELDS_H

#include "json.h"

/* A value and the path to it. value is NULL if it is missing. */
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

/* The name of a value's type in errors. */
const char *type_name(const struct json *value);

/* Each returns the value, or fails. */
const struct node *object_of(const struct node *node, size_t most);
const struct node *list(const struct node *node, size_t most);
struct text string(const struct node *node);
int64_t count_of(const struct node *node, int64_t most);

/* A text that has a form, such as is_digest. */
struct text formed(const struct node *node, bool (*form)(struct text), const char *what);

/* One of a list of texts that ends with NULL. */
struct text one_of(const struct node *node, const char *const words[]);

/* The object, which may have no keys but these. The list ends with NULL. */
const struct node *known(const struct node *node, const char *const names[]);

bool is_name(struct text text); /* of a fact */
bool is_op_name(struct text text);
bool is_digest(struct text text);
bool is_symbol(struct text text);
bool is_soname(struct text text);
bool is_glibc(struct text text);

#endif
