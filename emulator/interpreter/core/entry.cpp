// The functions that Python calls.
#include "machine.h"

std::vector<Operation> &operations() {
  static std::vector<Operation> all;
  return all;
}

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED u32 precast_operation_count() { return u32(operations().size()); }

EXPORTED const char *precast_operation_name(u32 number) { return operations()[number].name; }

// Puts the handlers in the place of the numbers of operations, once for each program.
EXPORTED void precast_load(Program *program) {
  for (u32 i = 0; i < program->instructions; ++i) {
    Insn &insn = program->code[i];
    insn.run = operations()[insn.operation].run;
  }
}

// Runs launches one after the other; returns 0, or 1 with a record of what is wrong.
EXPORTED int precast_run(const Launch *launches, u32 count, const Schedule *schedule, Counts *counts,
                         FaultRecord *record) {
  Machine machine(launches, count, *schedule);
  int status = 0;
  try {
    machine.run();
  } catch (const Fault &fault) {
    *record = machine.describe(fault);
    status = 1;
  }
  *counts = machine.counts;
  return status;
}
