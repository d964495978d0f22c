/* Host programs and launch plans: what a call of a cubin does, as an op's file says it. */
#ifndef PRECAST_PROGRAM_H
#define PRECAST_PROGRAM_H

#include "fields.h"

/* The arguments of a signature; shape and strides are NULL where they are not stated. */
struct argument {
  struct text name, kind, dtype, device;
  const struct json *shape, *strides;
  int64_t alignment, divisibility;
};

struct arguments {
  const struct argument *items;
  size_t count;
};

struct arguments arguments_of(struct call *call, const struct json *signature);

/* What an expression may be made of. A launch plan has fewer functions and leaves, and nests less; what decides a
 * launch may not depend on addresses or real numbers. */
struct vocabulary {
  struct arguments arguments;
  bool of_plan, decides;
};

/* Fails unless the node is a sound expression. */
void check_expression(const struct node *node, const struct vocabulary *words);

/* Fails unless the node is a sound program, or a plan, for a signature. */
void check_program(const struct node *node, const struct json *signature);
void check_plan(const struct node *node, const struct json *signature);

/* What a leaf stands for: a number of an argument that a call passes. */
enum leaf_kind { LEAF_DATA, LEAF_SPAN, LEAF_SHAPE, LEAF_STRIDE, LEAF_BITS, LEAF_NUMBER };

struct leaf {
  size_t argument; /* among those of the signature */
  enum leaf_kind kind;
  size_t dim;
};

/* false where the signature has no such leaf */
bool find_leaf(const struct arguments *arguments, struct text name, struct leaf *leaf);

/* The number of a function, as the code of host programs has it; 0 for what is none. */
int function_number(struct text name);

/* Whether a number has an integer type, or is a truth value. */
bool is_whole(struct text dtype);

#endif
