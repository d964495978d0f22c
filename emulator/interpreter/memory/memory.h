// Checked accesses to global, shared, local and parameter memory. Every access of an instruction or a copy comes here.
#pragma once
#include "../core/machine.h"

enum class Space : s32 { Generic, Global, Shared, Parameter, Local };
enum class Access : u8 {
  Read,
  ReadOnly, // ld.global.nc: what nothing writes while the kernel runs
  Write,
  Atomic,
  StrongRead // the last two may meet each other unordered
};
inline bool atomic(Access access) { return access == Access::Atomic || access == Access::StrongRead; }
inline bool writes(Access access) { return access == Access::Write || access == Access::Atomic; }
enum class Proxy : u8 {
  Generic,
  Copy, // cp.async: once it is complete, both proxies see its bytes
  Async,
  Tensor
}; // who touches it: instructions; bulk copies and wgmma/tcgen05 operands

class Memory {
public:
  Memory(Machine &machine, const Launch *launches, u32 count);
  // The bytes at an address, for an instruction of a warp: checks bounds, alignment (to `bytes` where that is a power
  // of two), copies under way, and races. Shared addresses carry the block's rank; local ones count from the thread's
  // own.
  u8 *at(Warp &warp, Space space, u64 address, u32 bytes, Access access, u32 lane);
  // The same for all active lanes at once.
  void all(Warp &warp, Space space, const u64 (&addresses)[LANES], u32 bytes, Access access, u32 active,
           u8 *(&places)[LANES]);
  // For asynchronous units, on behalf of `agent` (sync/races.h), without the check of alignment and of races.
  u8 *global(const Launch &launch, u64 address, u64 bytes, Access access, u32 lane = ~0u);
  u8 *shared(Block &mine, u32 address, u32 bytes, u32 lane = ~0u); // an address with the block's rank
  Block &owner(Block &mine, u32 address, u32 lane = ~0u);
  // The multicast memory that holds an access. What is touched are its copies.
  const Range &multicast(const Launch &launch, u64 address, u64 bytes, u32 lane) const;

private:
  bool quick(Warp &warp, Space space, const u64 (&addresses)[LANES], u32 bytes, Access access, u32 active,
             u8 *(&places)[LANES]);
  const Range *covering(const Launch &launch, u64 address, u64 bytes, bool write);
  [[noreturn]] void refuse(const Launch &launch, u64 address, u64 bytes, Access access, u32 lane) const;

  Machine &machine_;
  const Launch *launches_;
  std::vector<const Range *> last_read_, last_written_; // of each launch
};
