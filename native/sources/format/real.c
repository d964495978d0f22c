/* Real numbers out of text, the same in every locale. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "json.h"

/* strtod reads a number by the program's locale, which may write 1,5. */
double read_real(const char *text) {
  static locale_t plain;
  locale_t locale = __atomic_load_n(&plain, __ATOMIC_ACQUIRE);
  if (!locale) {
    locale_t made = newlocale(LC_ALL_MASK, "C", (locale_t)0), none = (locale_t)0;
    if (!made) return NAN;
    if (__atomic_compare_exchange_n(&plain, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      locale = made;
    } else {
      freelocale(made);
      locale = none;
    }
  }
  return strtod_l(text, NULL, locale);
}
