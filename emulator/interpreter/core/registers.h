// What the registers of a block hold before its first instruction.
#pragma once
#include "state.h"

void set_registers(Block &block, const Launch &launch, const Unwritten &fill);
