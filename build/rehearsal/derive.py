"""Derivation: the host program of an object, found by calling it and explained number by number.

What explains every call of one draw is checked against a second draw in another process, with sizes around the
constants that were found. What cannot be explained is a PlanError that names it: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from precast.build.errors import PlanError
from precast.build.link.toolchain import Toolchain
from precast.build.rehearsal import fit
from precast.build.rehearsal.calls import Call, Caller
from precast.build.rehearsal.draw import TAME
from precast.build.rehearsal.recorder import RecordedLaunch
from precast.loader.contract.format.program.expression import Expression
from precast.loader.contract.format.program.host_program import Extent, HostProgram, Parameter, Step, Word
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.values import replace

CALLS = 600
_SMALL = 1200
_ROUNDS = 5  # draws that find another constant send the derivation back so often
_ADVICE = "leave 'cubin' out of emit"


def derive(toolchain: Toolchain, obj: bytes, symbol: str, signature: Signature, cubins: Sequence[bytes]) -> HostProgram:
    """The host program of an object; a PlanError where its host code does what no host program can say."""
    if len(cubins) != 1:
        raise PlanError(f"{symbol} holds {len(cubins)} pieces of device code, and a cubin is one: {_ADVICE}")
    for argument in signature.passed:
        if argument.kind not in ("tensor", "scalar", "none"):
            raise PlanError(
                f"{symbol}: {argument.name} is a {argument.kind}, which a host program cannot read: {_ADVICE}"
            )
    caller = Caller(toolchain, obj, symbol, signature, cubins[0])
    derivation = _Derivation(caller)
    calls = caller.drawn("first", CALLS, tame=True)
    try:
        derivation.program(calls)
    except PlanError:  # a number that has its most in nearly every call shows in small ones
        calls += caller.drawn("small", 3 * CALLS, tame=True, most=_SMALL)
    for number in range(_ROUNDS):
        program = derivation.program(calls)
        again = caller.drawn(f"again {number}", CALLS, tame=True, near=program)
        wrong = caller.difference(program, again)
        if wrong is None:
            break
        calls += again
    else:
        raise PlanError(f"{symbol}: {wrong}; {_ADVICE}")
    wild = caller.drawn("wild", CALLS // 2, tame=False, near=program)
    return replace(program, limit=TAME) if caller.difference(program, wild) else program


class _Derivation:
    def __init__(self, caller: Caller) -> None:
        self.symbol = caller.symbol
        self._parameters = caller.parameters
        self._known = _known(caller.signature)

    def program(self, calls: Sequence[Call]) -> HostProgram:
        """What explains every one of these calls."""
        order = self._order(calls)
        if not order:
            raise PlanError(f"{self.symbol} launched nothing in {len(calls)} calls: {_ADVICE}")
        steps: list[Step] = []
        for kernel in order:
            steps.append(self._step(kernel, calls, steps))
        return HostProgram(steps=tuple(steps))

    def _order(self, calls: Sequence[Call]) -> tuple[str, ...]:
        """The kernels in the order in which they are launched, each once."""
        sequences = {tuple(launch.kernel for launch in call.recorded.launches) for call in calls}
        order = max(sequences, key=len)
        for sequence in sequences:
            if list(sequence) != [kernel for kernel in order if kernel in sequence]:
                raise PlanError(f"{self.symbol} launches its kernels in different orders: {_ADVICE}")
        return order

    def _step(self, kernel: str, calls: Sequence[Call], before: Sequence[Step]) -> Step:
        pairs = [(call.leaves, launch) for call in calls if (launch := call.launch_of(kernel)) is not None]
        leaves, launches = [passed for passed, _ in pairs], [launch for _, launch in pairs]

        def number(what: str, values: list[int]) -> Expression:
            expression = fit.count(values, leaves, self._known)
            if expression is None:
                raise self._unexplained(kernel, what)
            return expression

        def extent(what: str, of: Callable[[RecordedLaunch], tuple[int, int, int]]) -> Extent:
            x, y, z = (number(f"{what}[{i}]", [of(launch)[i] for launch in launches]) for i in range(3))
            return x, y, z

        if len({launch.overlap for launch in launches}) != 1:
            raise self._unexplained(kernel, "whether it may overlap the launch before it")
        return Step(
            kernel=kernel,
            grid=extent("the grid", lambda launch: launch.grid),
            block=extent("the block", lambda launch: launch.block),
            cluster=extent("the cluster", lambda launch: launch.cluster),
            shared=number("the shared memory", [launch.shared for launch in launches]),
            overlap=launches[0].overlap,
            when=self._when(kernel, calls, before),
            parameters=tuple(self._packed(kernel, leaves, launches)),
        )

    def _when(self, kernel: str, calls: Sequence[Call], before: Sequence[Step]) -> Expression:
        """Whether a call launches the kernel; a later one may go by whether the first is launched, too."""
        launched = [int(call.launch_of(kernel) is not None) for call in calls]
        condition = fit.flag(launched, [call.leaves for call in calls], self._known)
        if condition is None and before:
            rest = [call for call in calls if call.launch_of(before[0].kernel) is not None]
            launched = [int(call.launch_of(kernel) is not None) for call in rest]
            further = fit.flag(launched, [call.leaves for call in rest], self._known)
            condition = None if further is None else ("mul", before[0].when, further)
        if condition is None:
            raise self._unexplained(kernel, "whether it is launched at all")
        return condition

    def _packed(
        self, kernel: str, leaves: list[Mapping[str, int]], launches: list[RecordedLaunch]
    ) -> Iterator[Parameter]:
        for index, size in enumerate(self._parameters[kernel]):
            parts = [launch.parameters[index] for launch in launches]
            columns = list(zip(*(launch.written[index] for launch in launches), strict=True))
            set_bytes = bytes(map(all, columns))
            if set_bytes != bytes(map(any, columns)):
                raise self._unexplained(kernel, f"parameter {index}, some of whose bytes it sets in some calls only")
            words: list[Word] = []
            for offset in range(0, size, 8):
                where = f"{kernel}, parameter {index}"
                words += self._words(where, offset, min(8, size - offset), parts, set_bytes, leaves)
            yield Parameter(size=size, words=tuple(words))

    def _words(
        self,
        where: str,
        offset: int,
        width: int,
        parts: list[bytes],
        set_bytes: bytes,
        leaves: list[Mapping[str, int]],
    ) -> list[Word]:
        """The words between two offsets, as wide as they can be explained."""
        here = set_bytes[offset : offset + width]
        if not any(here):
            return []
        if all(here) and width in (1, 2, 4, 8):
            values = [int.from_bytes(part[offset : offset + width], "little") for part in parts]
            expression = fit.word(values, leaves, self._known, 8 * width)
            if expression is not None:
                return [Word(offset, width, expression)] if expression else []
        if width == 1:
            raise PlanError(f"{self.symbol}: what byte {offset} of {where} is made of could not be found: {_ADVICE}")
        half = 1 << (width - 1).bit_length() - 1
        return [
            *self._words(where, offset, half, parts, set_bytes, leaves),
            *self._words(where, offset + half, width - half, parts, set_bytes, leaves),
        ]

    def _unexplained(self, kernel: str, what: str) -> PlanError:
        return PlanError(f"{self.symbol}: {what} of {kernel} could not be explained by what is passed: {_ADVICE}")


def _known(signature: Signature) -> fit.Known:
    """What may explain a number: each tensor's own leaves, but one of each size that several share."""
    leaves, sizes, spans, real = [], dict[str, str](), [], []
    for argument in signature.passed:
        name = argument.name
        if argument.kind == "scalar":
            whole = argument.dtype.startswith(("int", "uint")) or argument.dtype == "bool"
            leaves.append(name if whole else f"{name}.bits")
            if whole:
                sizes[name] = name
            elif argument.dtype == "float32":
                real.append(f"{name}.bits")
        elif argument.kind == "tensor":
            leaves.append(f"{name}.data")
            spans.append(f"{name}.span")
            for what, dims in (("shape", argument.shape), ("strides", argument.strides or ())):
                for axis, dim in enumerate(dims):
                    if isinstance(dim, str):
                        leaves.append(leaf := f"{name}.{what}[{axis}]")
                        if what == "shape":
                            sizes.setdefault(dim, leaf)
    return fit.Known(tuple(leaves), tuple(sizes.values()), tuple(spans), tuple(real))
