// Operations that are approximate on GPUs.
#include "approximate.h"
#include "elementwise.h"
#include "rounding.h"

#define FUNCTION(NAME)                                                                                                 \
  UNARY(NAME##_approx_f32, f32, f32, canonical(approximate::NAME(a)))                                                  \
  UNARY(NAME##_approx_ftz_f32, f32, f32, flushed(canonical(approximate::NAME(flushed(a)))))
FUNCTION(ex2)
FUNCTION(lg2)
FUNCTION(rcp)
FUNCTION(rsqrt)
FUNCTION(sqrt)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tanh)

BINARY(div_approx_f32, f32, f32, f32, canonical(approximate::div(a, b)))
BINARY(div_approx_ftz_f32, f32, f32, f32, flushed(canonical(approximate::div(flushed(a), flushed(b)))))
BINARY(div_full_f32, f32, f32, f32, canonical(approximate::div_full(a, b)))
BINARY(div_full_ftz_f32, f32, f32, f32, flushed(canonical(approximate::div_full(flushed(a), flushed(b)))))

// Of float64, .ftz is about the subnormal numbers of float64.
static f64 flushed_wide(f64 a) { return bits_of(a) & 0x7ff0000000000000ull ? a : f64_of(bits_of(a) & 1ull << 63); }
UNARY(rcp_approx_ftz_f64, f64, f64, flushed_wide(approximate::rcp_wide(flushed_wide(a))))
UNARY(rsqrt_approx_ftz_f64, f64, f64, flushed_wide(approximate::rsqrt_wide(flushed_wide(a))))
UNARY(rsqrt_approx_f64, f64, f64, approximate::rsqrt_wide(a))

// Of 16 bits: the float32 result, rounded. Subnormal numbers are kept.
#define SHORT(NAME)                                                                                                    \
  UNARY(NAME##_approx_f16, u32, u32, f16_nearest(canonical(approximate::NAME(f16_value(a & 0xffff)))))                 \
  UNARY(NAME##_approx_bf16, u32, u32, bf16_nearest(canonical(approximate::NAME(bf16_value(a & 0xffff)))))              \
  UNARY(NAME##_approx_f16x2, u32, u32,                                                                                 \
        f16_nearest(approximate::NAME(f16_value(a & 0xffff))) | f16_nearest(approximate::NAME(f16_value(a >> 16)))     \
                                                                    << 16)                                             \
  UNARY(NAME##_approx_bf16x2, u32, u32,                                                                                \
        bf16_nearest(approximate::NAME(bf16_value(a & 0xffff))) | bf16_nearest(approximate::NAME(bf16_value(a >> 16))) \
                                                                      << 16)
SHORT(ex2)
SHORT(tanh)
// ex2.approx.ftz.bf16 flushes.
UNARY(ex2_approx_ftz_bf16, u32, u32, bf16_nearest(flushed(approximate::ex2(flushed(bf16_value(a & 0xffff))))))
UNARY(ex2_approx_ftz_bf16x2, u32, u32,
      bf16_nearest(flushed(approximate::ex2(flushed(bf16_value(a & 0xffff))))) |
          bf16_nearest(flushed(approximate::ex2(flushed(bf16_value(a >> 16))))) << 16)
