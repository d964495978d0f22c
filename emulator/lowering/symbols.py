"""Where variables are: parameters, shared and local memory, and what a module holds in global memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from precast.emulator.errors import Unsupported
from precast.emulator.lowering.operands import Initial
from precast.emulator.ptx.module import Function, Module, Scope, Variable

SHARED_LIMIT = 1 << 24


class Symbols:
    """The addresses of a kernel's variables.

    Parameters
    ----------
    module, kernel
        Which declare them.
    globals_at
        The addresses of the module's variables in global memory.
    """

    def __init__(self, module: Module, kernel: Function, globals_at: Mapping[str, int]) -> None:
        self.offsets, self.parameter_bytes = layout(kernel.parameters)
        self.shared: dict[tuple[int, str], int] = {}
        self.local: dict[tuple[int, str], int] = {}
        self.static_shared = 0
        self.local_bytes = 0
        self.dynamic_align = 16
        self.globals_at = globals_at
        self._kernel = kernel
        for variable in module.variables.values():
            if variable.space == "shared" and not variable.dynamic:
                self._place_shared(kernel.scope.parent, variable)
            elif variable.space == "shared":
                self.dynamic_align = max(self.dynamic_align, variable.align)

    @property
    def dynamic_offset(self) -> int:
        """Where dynamic shared memory begins, after the static one."""
        return -(-self.static_shared // self.dynamic_align) * self.dynamic_align

    def parameter(self, name: str) -> int | None:
        """The offset of a kernel's parameter."""
        return self.offsets.get(name)

    def address(self, name: str, scope: Scope, *, wide: bool, call: int = 0) -> tuple[Initial, int]:
        """What a register with a variable's address holds."""
        if name in self.offsets:
            return Initial.PARAMETER_ADDRESS, self.offsets[name]
        entry = scope.variable(name)
        if entry is None:
            raise Unsupported(f"{name} is not declared")
        owner, variable = entry
        if variable.space == "shared":
            if variable.dynamic:
                return (Initial.DYNAMIC_ADDRESS_WIDE if wide else Initial.DYNAMIC_ADDRESS), 0
            key = (owner.number, name)  # one for all calls, as static variables are
            offset = self.shared[key] if key in self.shared else self._place_shared(owner, variable)
            return (Initial.SHARED_ADDRESS_WIDE if wide else Initial.SHARED_ADDRESS), offset
        if variable.space in ("local", "param"):
            return (Initial.DOUBLE_WORD if wide else Initial.WORD), self._place_local(owner, variable, call)
        if variable.space in ("global", "const") and name in self.globals_at:
            return Initial.DOUBLE_WORD, self.globals_at[name]
        raise Unsupported(f"the address of {name} in .{variable.space} is not emulated")

    def _place_shared(self, owner: Scope | None, variable: Variable) -> int:
        assert owner is not None
        self.static_shared = -(-self.static_shared // variable.align) * variable.align
        offset = self.shared[owner.number, variable.name] = self.static_shared
        self.static_shared += variable.size
        return offset

    def local_parameter(self, name: str, scope: Scope, call: int) -> int | None:
        """Where a ``.param`` that a function's body declares is in local memory; None where it declares none."""
        entry = scope.variable(name)
        if entry is None or entry[1].space != "param":
            return None
        return self._place_local(*entry, call)

    def _place_local(self, owner: Scope, variable: Variable, call: int) -> int:
        key = (owner.number + (call << 32), variable.name)
        if key not in self.local:
            self.local_bytes = -(-self.local_bytes // variable.align) * variable.align
            self.local[key] = self.local_bytes
            self.local_bytes += variable.size
        return self.local[key]


def layout(variables: Iterable[Variable]) -> tuple[dict[str, int], int]:
    """The offsets of parameters, and the bytes of all.

    >>> layout([Variable("a", "param", 4, 4), Variable("b", "param", 24, 8)])
    ({'a': 0, 'b': 8}, 32)
    """
    offsets, size = {}, 0
    for variable in variables:
        size = -(-size // variable.align) * variable.align
        offsets[variable.name] = size
        size += variable.size
    return offsets, size
