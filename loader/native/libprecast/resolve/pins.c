/* Pins: the digests that the index of each cache must have one of. The index holds the digests of everything else. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cache.h"

#define LIMIT (1 << 20)

static struct text pins_in_file(struct call *call, const char *path) {
  char *data = take(call, LIMIT + 1, 1);
  FILE *file = fopen(path, "rbe");
  size_t size = file ? fread(data, 1, LIMIT + 1, file) : 0;
  bool sound = file && !ferror(file);
  if (file) fclose(file);
  if (!sound)
    fail(call, PRECAST_WRONG_REQUEST, "the pins name %s, which cannot be read as pins (%s): correct the file", path,
         strerror(errno));
  if (size > LIMIT)
    fail(call, PRECAST_WRONG_REQUEST, "the pins name %s, which is larger than a list of pins: name another file", path);
  for (size_t i = 0; i < size; ++i)
    if (!data[i] || (unsigned char)data[i] >= 0x80)
      fail(call, PRECAST_WRONG_REQUEST,
           "the pins name %s, which cannot be read as pins (it is no ASCII): correct the file", path);
  return (struct text){data, size};
}

static bool space(char c) { return c == ' ' || c == ',' || (c >= '\t' && c <= '\r'); }

const char *refused_by_pins(struct call *call, const char *pins, struct text name, const char *digest) {
  struct text text = text_of(pins);
  while (text.size && space(*text.data)) ++text.data, --text.size;
  while (text.size && space(text.data[text.size - 1])) --text.size;
  if (!text.size) return NULL;
  if (!memchr(text.data, '=', text.size)) text = pins_in_file(call, terminated(call, text));
  size_t count = 0;
  bool named = false, pinned = false;
  for (size_t i = 0; i < text.size;) {
    if (text.data[i] == '#') { /* a comment, to the end of its line */
      while (i < text.size && text.data[i] != '\n') ++i;
      continue;
    }
    if (space(text.data[i])) {
      ++i;
      continue;
    }
    size_t begin = i, equals = SIZE_MAX;
    for (; i < text.size && !space(text.data[i]) && text.data[i] != '#'; ++i)
      if (text.data[i] == '=' && equals == SIZE_MAX) equals = i;
    struct text whole = {text.data + begin, i - begin}, whose = whole, what = {"", 0};
    if (equals != SIZE_MAX) {
      whose.size = equals - begin;
      what = (struct text){text.data + equals + 1, i - equals - 1};
    }
    if (!is_cache_name(whose) || !is_digest(what))
      fail(call, PRECAST_WRONG_REQUEST, "%s is not a pin: write NAME=SHA256, the digest of index.json",
           quoted(call, whole));
    ++count;
    named = named || equal(whose, name);
    pinned = pinned || (equal(whose, name) && is(what, digest));
  }
  if (!count) fail(call, PRECAST_WRONG_REQUEST, "the list of pins is empty: write NAME=SHA256, or leave them out");
  if (pinned) return NULL;
  const char *cache = terminated(call, name);
  if (!named) return format(call, "no pin names the cache '%s': pin %s=%s if you trust it", cache, cache, digest);
  return format(
      call,
      "the index of cache '%s' has the digest %.16s..., which is not the one that is pinned: reinstall the cache"
      " that was pinned, or pin the new one if you trust it",
      cache, digest);
}
