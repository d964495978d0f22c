/* The nearest of some words. */
#include <string.h>

#include "config.h"

#define LONGEST 48

/* How many letters must change to make one word of another. */
static size_t edits(struct text one, struct text other) {
  size_t row[LONGEST + 1];
  for (size_t j = 0; j <= other.size; ++j) row[j] = j;
  for (size_t i = 1; i <= one.size; ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= other.size; ++j) {
      size_t above = row[j], left = row[j - 1], changed = corner + (one.data[i - 1] != other.data[j - 1]);
      corner = above;
      row[j] = above + 1 < left + 1 ? above + 1 : left + 1;
      if (changed < row[j]) row[j] = changed;
    }
  }
  return row[other.size];
}

const char *suggest(struct call *call, struct text word, const struct text *words, size_t count) {
  size_t best = 0, least = SIZE_MAX;
  for (size_t i = 0; i < count && word.size <= LONGEST; ++i) {
    if (words[i].size > LONGEST) continue;
    size_t apart = edits(word, words[i]), longer = word.size > words[i].size ? word.size : words[i].size;
    if (apart * 5 <= longer * 2 && apart < least) best = i, least = apart;
  }
  if (least != SIZE_MAX) return format(call, "; did you mean %s?", quoted(call, words[best]));
  struct builder builder = {.call = call};
  if (count) put(&builder, "; it takes one of: ");
  for (size_t i = 0; i < count && i < 100; ++i) {
    const char *shown_word = quoted(call, words[i]);
    put(&builder, i ? ", %.*s" : "%.*s", (int)strlen(shown_word) - 2, shown_word + 1);
  }
  return built(&builder);
}
