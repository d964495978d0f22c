// A lowered program as Python packs it, and one launch of it.
#pragma once
#include <cstdint>

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

constexpr u32 LANES = 32;
constexpr u32 ALL_LANES = ~0u;

class Machine;
struct Warp;
struct Insn;

enum class Outcome : u8 {
  Next,    // the group goes on with the next instruction
  Jumped,  // the instruction has set the program counter
  Yield,   // the group goes on with the next instruction, at the warp's next turn: it polls
  Blocked, // it can not be executed yet: it is tried again at the warp's next turn
  Ended    // all active lanes have exited
};

// Executes an instruction for the active lanes of a warp's current group.
using Handler = Outcome (*)(Machine &, Warp &, const Insn &, u32 active);

// Registers are places in a warp's register file, in words of 32 bits: a predicate takes one word (a bit for each
// lane), a 16- or 32-bit register 32 words, a 64-bit register 64 words. Values of 16 bits are zero above.
struct Insn { // 64 bytes
  union {
    u64 operation; // in a packed program: the operation's number
    Handler run;   // in a program that is ready to run
  };
  s32 guard; // -1: none; else the predicate's place * 2, + 1 if it is negated
  s32 a[11]; // the operands, by the operation's own rule: places (-1: absent), numbers, places in the pool
  s64 immediate;
};
static_assert(sizeof(Insn) == 64);

enum class Initial : u32 {
  Word,
  DoubleWord,
  Predicate,        // of all lanes: 0 or 1
  ParameterAddress, // 64 bits
  SharedAddress,    // of static shared memory, with the block's rank
  SharedAddressWide,
  DynamicAddress, // of dynamic shared memory
  DynamicAddressWide,
  Special,
  Count
};

struct Constant { // a register that has a value before the first instruction
  s32 place;
  Initial kind;
  u64 value; // the number itself, an offset, or a Special
};

enum Special : u64 { // in the order of ptx/special_registers.py
  TID_X,
  TID_Y,
  TID_Z,
  NTID_X,
  NTID_Y,
  NTID_Z,
  CTAID_X,
  CTAID_Y,
  CTAID_Z,
  NCTAID_X,
  NCTAID_Y,
  NCTAID_Z,
  CLUSTER_CTARANK,
  CLUSTER_NCTARANK,
  CLUSTER_CTAID_X,
  CLUSTER_CTAID_Y,
  CLUSTER_CTAID_Z,
  CLUSTER_NCTAID_X,
  CLUSTER_NCTAID_Y,
  CLUSTER_NCTAID_Z,
  CLUSTERID_X,
  CLUSTERID_Y,
  CLUSTERID_Z,
  NCLUSTERID_X,
  NCLUSTERID_Y,
  NCLUSTERID_Z,
  LANEID,
  WARPID,
  SMID,
  NSMID,
  DYNAMIC_SHARED,
  LANEMASK_EQ,
  LANEMASK_LT,
  LANEMASK_LE,
  LANEMASK_GT,
  LANEMASK_GE,
  NWARPID,
  TOTAL_SHARED,
  AGGREGATE_SHARED
};

struct Program {
  Insn *code;
  const s32 *pool;  // lists of places that are longer than an instruction
  const s32 *lines; // of the PTX, for each instruction
  const Constant *constants;
  const s32 *poisoned; // places and lengths in words of registers that may be read before they are written
  u32 instructions, pool_size, constant_count, poisoned_count;
  u32 register_words;
  u32 static_shared;  // bytes
  u32 dynamic_offset; // from the end of the system's shared memory: static_shared, aligned
  u32 local_bytes;    // of a thread
  u32 parameter_bytes;
};

struct Range { // memory that a launch may touch
  u64 begin, end;
  u64 first, step; // of multicast memory: where its first copy is, and how far the copies are apart
  u32 copies;      // 0: not multicast memory
  u32 writable;
  u32 number; // in the call's list of ranges
  const char *name;
};

// What registers and memory hold before they are written: two words in no regular order, or one, if they are equal.
struct Unwritten {
  u32 words[2];
  u32 of(u64 place) const { return words[u32(place) * 0x9e3779b1u >> 31]; }
  void put(u32 *to, u64 count) const {
    for (u64 i = 0; i < count; ++i) to[i] = of(i);
  }
};

struct Schedule {      // how asynchronous things are ordered
  u64 seed;            // 0: in program order, and all asynchronous effects at once
  u32 delay;           // with a seed: effects come up to so many turns later
  u32 check_races;     // whether happens-before is checked
  u64 limit;           // of warp instructions of one launch; 0: none
  u32 multiprocessors; // of the GPU that is emulated
  Unwritten fill;
};

struct Launch {
  Program *program;
  const u8 *parameters;
  const Range *ranges;
  u32 range_count;
  u32 grid[3], block[3], cluster[3];
  u32 preferred[3]; // of a larger cluster, in place of several of the other size; zeros without
  u32 dynamic_shared;
  u32 multiprocessors; // of the GPU: as in Schedule
  u32 overlap;         // programmatic dependent launch: it may begin before the launch before it has ended
  u32 device;          // launches of one device are in order, those of several at once
  u32 resident;        // as many of its blocks may be on the GPU at once
};

struct Counts {
  u64 instructions, turns, blocks, copied_bytes, product_flops, spins;
};

struct FaultRecord { // what a child returns of a fault
  char kind[32];
  char text[1024];
  u32 launch, block[3], warp, lane, line; // lane: ~0 where it is all
  u32 other_line;                         // of the access that this one races with; 0: none
};
