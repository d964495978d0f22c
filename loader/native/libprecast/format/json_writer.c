/* JSON as text: compact, in ASCII. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* The digits of a number, and its exponent. A program's locale may put anything between the digits. */
static int digits_of(double value, int precision, char digits[32]) {
  char raw[64];
  size_t count = 0, i = 0;
  snprintf(raw, sizeof raw, "%.*e", precision, value);
  for (; raw[i] && raw[i] != 'e'; ++i)
    if (raw[i] >= '0' && raw[i] <= '9') digits[count++] = raw[i];
  digits[count] = 0;
  return raw[i] ? atoi(raw + i + 1) : 0;
}

/* In the form that Python gives it: with an exponent below 1e-4 and from 1e16 on. */
void put_real(struct builder *builder, double value) {
  char digits[32], text[64];
  int precision = -1, exponent;
  if (!isfinite(value)) return put(builder, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  do {
    exponent = digits_of(value, ++precision, digits);
    snprintf(text, sizeof text, "%s%c.%s0e%d", signbit(value) ? "-" : "", digits[0], digits + 1, exponent);
  } while (read_real(text) != value && precision < 16);
  put(builder, "%s", signbit(value) ? "-" : "");
  if (exponent < -4 || exponent >= 16) {
    put(builder, "%c%s%s", digits[0], precision ? "." : "", digits + 1);
    return put(builder, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
  }
  if (exponent < 0) put(builder, "0.%.*s%s", -exponent - 1, "000", digits);
  for (int i = 0; exponent >= 0 && (digits[i] || i <= exponent + 1); ++i) {
    if (i == exponent + 1) put(builder, ".");
    put(builder, "%c", digits[i] ? digits[i] : '0');
    if (!digits[i]) digits[i + 1] = 0;
  }
}

static void put_json_text(struct builder *builder, struct text text) {
  put(builder, "\"");
  for (size_t i = 0; i < text.size; ++i) {
    unsigned char c = (unsigned char)text.data[i];
    if (c == '"' || c == '\\') {
      put(builder, "\\%c", c);
    } else if (c >= 0x20 && c < 0x7f) {
      put(builder, "%c", c);
    } else if (c < 0xc0) {
      put(builder, "\\u%04x", c);
    } else { /* the text was checked, so the bytes that it needs are there */
      int more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
      unsigned code = c & (0x3fu >> more);
      for (; more > 0; --more) code = code << 6 | ((unsigned char)text.data[++i] & 63);
      if (code < 0x10000) {
        put(builder, "\\u%04x", code);
      } else {
        put(builder, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
      }
    }
  }
  put(builder, "\"");
}

void put_json(struct builder *builder, const struct json *value) {
  switch (value->kind) {
  case JSON_NULL:
    return put(builder, "null");
  case JSON_BOOL:
    return put(builder, value->truth ? "true" : "false");
  case JSON_INT:
    return put(builder, "%lld", (long long)value->number);
  case JSON_BIG:
    return put(builder, "%.0f", value->real);
  case JSON_REAL:
    return put_real(builder, value->real);
  case JSON_TEXT:
    return put_json_text(builder, json_text(value));
  case JSON_LIST:
    put(builder, "[");
    for (size_t i = 0; i < value->size; ++i) {
      if (i) put(builder, ",");
      put_json(builder, &value->items[i]);
    }
    return put(builder, "]");
  case JSON_OBJECT:
    put(builder, "{");
    for (size_t i = 0; i < value->size; ++i) {
      if (i) put(builder, ",");
      put_json_text(builder, value->members[i].name);
      put(builder, ":");
      put_json(builder, &value->members[i].value);
    }
    return put(builder, "}");
  }
}
