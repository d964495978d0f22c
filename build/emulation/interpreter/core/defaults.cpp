// What is linked until the owner's own file is there: no race is found, and effects happen at once.
#include "../sync/effects.h"
#include "../sync/races.h"

#define WEAK __attribute__((weak))

struct Races::State {};
WEAK Races::Races(Machine &) {}
WEAK Races::~Races() {}
WEAK Agent Races::warp_begins(Warp &) { return 0; }
WEAK void Races::warp_ends(Warp &) {}
WEAK void Races::cluster_ends(Cluster &) {}
WEAK void Races::shared(Agent, Block &, u32, u32, Access, Proxy, u32) {}
WEAK void Races::global(Agent, u64, u64, Access, Proxy, u32) {}
WEAK void Races::lanes(Warp &, Block *, const u64 (&)[LANES], u32, Access, u32) {}
WEAK void Races::strong(Agent, u64, bool, bool, Order, ::Scope) {}
WEAK bool Effects::idle() const { return true; }
WEAK void run_due(Machine &, Block &) {}
