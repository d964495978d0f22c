"""What an emulation gives: counts of what was executed, and the fault that ended it."""

from __future__ import annotations

from dataclasses import dataclass

from precast.emulator.errors import EmulationFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was executed: warp instructions, turns of warps, blocks, bytes of copies, operations of products."""

    instructions: int = 0
    turns: int = 0
    blocks: int = 0
    copied_bytes: int = 0
    product_flops: int = 0
    spins: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Launches that have ended. What they computed is in their memory; a fault ends them early."""

    counts: Counts
    fault: EmulationFault | None = None

    def checked(self) -> Counts:
        """The counts; raises the fault if there is one.

        >>> Result(counts=Counts(blocks=2)).checked().blocks
        2
        """
        if self.fault is not None:
            raise self.fault
        return self.counts
