"""Products without any k by CUTLASS's operators for Blackwell, whose kernels would store sums that they never began.

Their epilogue reads tensor memory to which no product was issued: what an earlier kernel has left there is the result.
So a small kernel stores the epilogue of zeros instead. With any k, a call costs one comparison more on the host.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.adapters.operators.epilogue import Epilogue

_THREADS = 256  # of a block that stores the epilogue of zeros
_WORDS = {8: cutlass.Uint8, 16: cutlass.Uint16, 32: cutlass.Uint32, 64: cutlass.Uint64}
_STREAM, _OUT = "stream", "out"  # stand for these in the arguments of an operator


class Product:
    """An operator's kernel, and what else is passed to it: ``plain`` has arguments that are known while compiling, and
    ``_STREAM`` and ``_OUT`` where those two stand. ``epilogue`` is None where the product is stored as it is."""

    def __init__(self, implementation: Any, first: tuple[Any, ...], plain: tuple[Any, ...], epilogue: str) -> None:
        self.implementation, self.first, self.plain = implementation, first, plain
        self.epilogue = Epilogue.parse(epilogue) if epilogue else None

    @cute.jit
    def product(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch the operator's kernel, or without any k the one that stores zeros."""
        rest = self.rest(stream, out)
        if cute.size(a, mode=[cute.rank(a) - 1]) > 0:
            self.implementation(*self.first, a, b, *rest)
        else:
            self.store(out, (), stream)

    @cute.jit
    def product_with_epilogue(self, a: cute.Tensor, b: cute.Tensor, stream: Any, *behind: Any) -> None:
        """The same for operators that take what the epilogue reads, and the result, behind the stream."""
        rest = self.rest(stream)
        if cute.size(a, mode=[cute.rank(a) - 1]) > 0:
            self.implementation(*self.first, a, b, *rest, *behind)
        else:
            self.store(behind[-1], behind[:-1], stream)

    def rest(self, stream: Any, out: Any = None) -> list[Any]:
        """What an operator's function takes behind the two matrices, in its order."""
        passed = {_STREAM: stream, _OUT: out}
        return [passed[p] if isinstance(p, str) else p for p in self.plain]

    @cute.jit
    def store(self, out: cute.Tensor, read: Any, stream: Any) -> None:
        """Launch the kernel that multiplies nothing; an empty result takes none."""
        if cute.size(out) > 0:
            blocks = cutlass.Int32((cutlass.Int64(cute.size(out)) + _THREADS - 1) // _THREADS)
            self.kernel(out, read).launch(grid=[blocks, 1, 1], block=[_THREADS, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, out: cute.Tensor, read: Any) -> None:
        """The epilogue of a zero for each element."""
        block, _, _ = cute.arch.block_idx()
        thread, _, _ = cute.arch.thread_idx()
        i = cutlass.Int64(block) * _THREADS + thread
        if i < cute.size(out):
            element = self.element(out, i)
            if cutlass.const_expr(self.epilogue is None):
                word = _WORDS[out.element_type.width]
                zeros = cute.make_tensor(cute.recast_ptr(out.iterator, dtype=word), out.layout)
                zeros[element] = word(0)
            else:
                out[element] = self.of_zero(read, element).to(out.element_type)

    def element(self, out: Any, i: Any) -> tuple[Any, ...]:
        """The coordinates of an element, counted along rows."""
        *batch, rows, columns = [cutlass.Int64(size) for size in out.shape]
        inside = (i // columns % rows, i % columns)
        return (i // (rows * columns), *inside) if batch else inside

    def of_zero(self, read: Any, element: Any) -> Any:
        """What the epilogue gives for a product of zero."""
        assert self.epilogue is not None
        values = {"accum": cutlass.Float32(0)}
        for name, value in zip(self.epilogue.inputs, read, strict=True):
            if name == "bias":
                value = value[element[-1]]
            elif name == "C":
                value = value[element]
            values[name] = cutlass.Float32(value)
        return self.epilogue.computed(values, _FUNCTIONS.__getitem__, cutlass.Float32)


_FUNCTIONS = {
    "relu": lambda x: cute.arch.fmax(x, cutlass.Float32(0)),
    "sigmoid": lambda x: 1.0 / (1.0 + cute.math.exp(-x)),
    "tanh": cute.math.tanh,
    "exp": cute.math.exp,
}


def take_no_k(operator: Any, call: Any, epilogue: str) -> None:
    """Let an operator for Blackwell compile a product that may be without any k."""
    compile_ = operator.cute_compile
    a, b, out = call.A.tensor, call.B.tensor, call.out.tensor
    stream_type = type(cute.runtime.make_fake_stream())

    def with_both(implementation: Any, *passed: Any, target_sm: Any) -> Any:
        at = next(i for i, value in enumerate(passed) if value is a)
        first, rest = passed[:at], passed[at + 2 :]
        behind = next(i for i, value in enumerate(rest) if type(value) is stream_type) + 1
        stream = rest[behind - 1]
        plain = tuple(_OUT if value is out else _STREAM if value is stream else value for value in rest)
        if _OUT in plain:
            product = Product(implementation, first, plain, "").product
            return compile_(product, a, b, out, stream, target_sm=target_sm)
        product = Product(implementation, first, plain[:behind], epilogue).product_with_epilogue
        return compile_(product, a, b, stream, *rest[behind:], target_sm=target_sm)

    operator.cute_compile = with_both
