// Checked accesses to global, shared, local and parameter memory. Every access of an instruction or a copy comes here.
#pragma once
#include "../core/machine.h"

enum class Space : s32 { Generic, Global, Shared, Parameter, Local };
enum class Access : u8 { Read, Write, Atomic };
enum class Proxy : u8 { Generic, Async, Tensor };  // who touches it: instructions; bulk copies and wgmma/tcgen05 operands

class Memory {
 public:
  explicit Memory(Machine &machine);
  // The bytes at an address, for an instruction of a warp: checks bounds, alignment (to `bytes` where that is a power of
  // two), copies under way, and races.
  u8 *at(Warp &warp, Space space, u64 address, u32 bytes, Access access, u32 lane);
  // The same for asynchronous units, on behalf of `agent` (sync/races.h), without the check of alignment.
  u8 *global(const Launch &launch, u64 address, u64 bytes, Access access);
  u8 *shared(Block &mine, u32 address, u32 bytes);  // an address with the block's rank; no check of races
  Block &owner(Block &mine, u32 address);

 private:
  Machine &machine_;
};
