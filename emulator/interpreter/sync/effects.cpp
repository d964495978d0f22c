// When asynchronous effects happen: at once without a seed, after some turns with one.
#include "effects.h"

#include <algorithm>

namespace {
// Short and long delays mixed: a fault that a long delay hides shows with a short one, and the other way round.
u64 some_delay(Machine &machine) {
  const u64 longest = u64(machine.schedule.delay) + 1, choice = machine.random();
  const u64 most = std::max<u64>(1, longest >> 2 * (choice & 3));
  return (choice >> 8) % most;
}

bool take_due(Machine &machine, Effects &effects, Effect &effect) {
  for (size_t i = 0; i < effects.unordered.size(); ++i) {
    if (effects.unordered[i].due > machine.turn) continue;
    effect = std::move(effects.unordered[i].effect);
    effects.unordered[i] = std::move(effects.unordered.back());
    effects.unordered.pop_back();
    return true;
  }
  for (auto &pipe : effects.pipes) {
    if (pipe.empty() || pipe.front().due > machine.turn) continue;
    effect = std::move(pipe.front().effect);
    pipe.pop_front();
    return true;
  }
  return false;
}
} // namespace

bool Effects::idle() const {
  if (!unordered.empty()) return false;
  return std::all_of(std::begin(pipes), std::end(pipes), [](const auto &pipe) { return pipe.empty(); });
}

void later(Machine &machine, Block &block, Effect effect) {
  if (!machine.adversarial()) return effect();
  block.effects->unordered.push_back({machine.turn + some_delay(machine), std::move(effect)});
}

void in_order(Machine &machine, Block &block, Pipe pipe, Effect effect) {
  if (!machine.adversarial()) return effect();
  auto &steps = block.effects->pipes[int(pipe)];
  u64 due = machine.turn + some_delay(machine);
  if (!steps.empty()) due = std::max(due, steps.back().due);
  steps.push_back({due, std::move(effect)});
}

// An effect is taken out before it happens: it may add others.
void run_due(Machine &machine, Block &block) {
  Effect effect;
  while (take_due(machine, *block.effects, effect)) {
    effect();
    effect = nullptr;
    ++machine.changes;
  }
}
