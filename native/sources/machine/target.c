#include "target.h"

struct version version_of(struct text text) {
  int numbers[2] = {0, 0}, place = 0;
  bool sound = true;
  for (size_t i = 0; i < text.size && place < 2; ++i) {
    char c = text.data[i];
    if (c == '.') {
      if (!sound) numbers[place] = 0;
      ++place, sound = true;
    } else if (c < '0' || c > '9' || numbers[place] > 100000000) {
      sound = false;
    } else {
      numbers[place] = numbers[place] * 10 + (c - '0');
    }
  }
  if (place < 2 && !sound) numbers[place] = 0;
  return (struct version){numbers[0], numbers[1]};
}

bool is_older(struct version one, struct version other) {
  return one.major < other.major || (one.major == other.major && one.minor < other.minor);
}

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
