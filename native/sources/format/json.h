/* JSON that may be hostile: UTF-8, of bounded depth, no key twice, no NaN. */
#ifndef PRECAST_JSON_H
#define PRECAST_JSON_H

#include "base.h"

enum kind { JSON_NULL, JSON_BOOL, JSON_INT, JSON_BIG, JSON_REAL, JSON_TEXT, JSON_LIST, JSON_OBJECT };

/* A whole number beyond 64 bits is BIG: its real number is near it. */
struct json {
  uint32_t kind;
  uint32_t size;      /* of a text, its bytes; of a list or an object, its items */
  struct text source; /* the text that it was read from */
  union {
    bool truth;
    int64_t number;
    double real;
    const char *data;
    const struct json *items;
    const struct member *members; /* by their names, sorted */
  };
};

struct member {
  struct text name;
  struct json value;
};

/* The value of a text, which must outlive it: texts without escapes are not copied. */
const struct json *parse_json(struct call *call, struct text text);

/* The value under a name, or NULL. */
const struct json *find(const struct json *object, struct text name);

struct text json_text(const struct json *value);

/* Whether two values are equal; 1 and 1.0 are not. */
bool same(const struct json *one, const struct json *other);

/* The real number that a text begins with, in JSON's form. */
double read_real(const char *text);

#endif
