// The element types of matrices, and their values. All fit float32 exactly, except float64's.
#pragma once
#include "../scalar/formats.h"

enum class Element : u8 { F16, Bf16, Tf32, E4m3, E5m2, E2m3, E3m2, E2m1, U8, S8, U4, S4, F64, Ue8m0, Ue4m3 };

constexpr u32 bits_of(Element element) {
  switch (element) {
  case Element::F64:
    return 64;
  case Element::Tf32:
    return 32;
  case Element::F16:
  case Element::Bf16:
    return 16;
  case Element::E2m3:
  case Element::E3m2:
    return 6;
  case Element::E2m1:
  case Element::U4:
  case Element::S4:
    return 4;
  default:
    return 8;
  }
}

// The exponent of the smallest normal number, of the types of up to 8 bits.
constexpr int least_exponent(Element element) {
  switch (element) {
  case Element::E5m2:
    return least_exponent(format::E5M2);
  case Element::E2m3:
    return least_exponent(format::E2M3);
  case Element::E3m2:
    return least_exponent(format::E3M2);
  case Element::E2m1:
    return least_exponent(format::E2M1);
  default:
    return least_exponent(format::E4M3);
  }
}

// The value of a code that stands in the low bits, for the types of up to 8 bits.
inline f32 small_value(Element element, u32 code) {
  switch (element) {
  case Element::E4m3:
    return values::E4M3[code & 0xff];
  case Element::E5m2:
    return values::E5M2[code & 0xff];
  case Element::E2m3:
    return values::E2M3[code & 0x3f];
  case Element::E3m2:
    return values::E3M2[code & 0x3f];
  case Element::E2m1:
    return values::E2M1[code & 0xf];
  case Element::S8:
    return f32(s8(code));
  case Element::U4:
    return f32(code & 0xf);
  case Element::S4:
    return f32(s32(code << 28) >> 28);
  case Element::Ue8m0:
    return values::UE8M0[code & 0xff];
  case Element::Ue4m3:
    return values::UE4M3[code & 0xff];
  default:
    return f32(code & 0xff);
  }
}

inline f32 tf32_value(u32 bits) { return f32_of(bits & 0xffffe000); } // the low bits are not looked at

// How elements of less than a byte lie in a row of 16 bytes.
enum class Packing : u8 {
  Dense,  // one after the other
  Padded, // 16 elements in 16 bytes: 8 bytes of 4-bit elements or 12 of 6-bit elements, then nothing
};

// Elements in 16 bytes.
inline u32 elements_in_chunk(Element element, Packing packing) {
  return packing == Packing::Padded ? 16 : 128 / bits_of(element);
}

// Decodes 16 bytes; returns how many elements.
inline u32 decode_chunk(Element element, Packing packing, const u8 *bytes, f32 *out) {
  const u32 count = elements_in_chunk(element, packing);
  switch (element) {
  case Element::F16:
  case Element::Bf16: {
    u16 codes[8];
    std::memcpy(codes, bytes, 16);
    for (u32 i = 0; i < 8; ++i) out[i] = element == Element::Bf16 ? bf16_value(codes[i]) : f16_value(codes[i]);
    break;
  }
  case Element::Tf32: {
    u32 words[4];
    std::memcpy(words, bytes, 16);
    for (u32 i = 0; i < 4; ++i) out[i] = tf32_value(words[i]);
    break;
  }
  case Element::E2m1:
  case Element::U4:
  case Element::S4:
    for (u32 i = 0; i < count; ++i) out[i] = small_value(element, bytes[i / 2] >> (i % 2 * 4));
    break;
  case Element::E2m3:
  case Element::E3m2:
    for (u32 i = 0; i < count; ++i) {
      const u32 bit = i * 6;
      const u32 pair = bytes[bit / 8] | u32(bit / 8 + 1 < 16 ? bytes[bit / 8 + 1] : 0) << 8;
      out[i] = small_value(element, pair >> (bit % 8));
    }
    break;
  default:
    for (u32 i = 0; i < count; ++i) out[i] = small_value(element, bytes[i]);
  }
  return count;
}
