"""Epilogues: an expression that is computed on the product before it is stored, such as ``relu(accum + bias)``.

The names in it: ``accum``, the product; ``bias``, a vector of n; ``C``, a matrix like the result; ``alpha`` and
``beta``, numbers. The operator and the reference in torch read the same expression.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

NAMES = ("bias", "C", "alpha", "beta")
FUNCTIONS = ("relu", "sigmoid", "tanh", "exp")  # what the operators both read and can compile
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A checked expression, and the names it reads beside ``accum``, in the order they are passed."""

    expression: str
    inputs: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Epilogue:
        """Read an expression that ``refusal`` accepts.

        >>> Epilogue.parse("relu(accum + bias)").inputs
        ('bias',)
        """
        reason = cls.refusal(text)
        if reason is not None:
            raise ValueError(reason)
        used = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
        return cls(text, tuple(name for name in NAMES if name in used))

    @staticmethod
    def refusal(text: str) -> str | None:
        """What is wrong with an expression, or None.

        >>> Epilogue.refusal("accum+bias")
        "epilogue 'accum+bias' has another spelling: write 'accum + bias'"
        """
        try:
            tree = ast.parse(text[:_LIMIT], mode="eval")
        except (SyntaxError, ValueError, RecursionError):
            return f"epilogue {text[:_LIMIT]!r} is not an expression: write one such as 'relu(accum + bias)'"
        wrong = next((w for w in map(_wrong, _nodes(tree.body)) if w), None)
        if wrong:
            return f"epilogue {text!r}: {wrong}"
        if not any(isinstance(n, ast.Name) and n.id == "accum" for n in ast.walk(tree)):
            return f"epilogue {text!r} leaves the product out: use accum in it"
        if len(text) > _LIMIT:
            return f"an epilogue of {len(text)} characters is too long: write {_LIMIT} at most"
        spelt = ast.unparse(tree)
        return None if spelt == text else f"epilogue {text!r} has another spelling: write {spelt!r}"

    @property
    def source(self) -> str:
        """The expression as the operators read it: a function from ``accum`` to ``D``."""
        return f"def epilogue({', '.join(('accum', *self.inputs))}):\n    D = {self.expression}\n    return D\n"

    def evaluate(self, accum: Any, values: Mapping[str, Any]) -> Any:
        """What the expression gives for torch tensors."""
        return self.computed({"accum": accum, **values}, _torch_function)

    def computed(
        self,
        values: Mapping[str, Any],
        function: Callable[[str], Any],
        number: Callable[[float], Any] = lambda value: value,
    ) -> Any:
        """What the expression gives for values of any kind, with the functions of that kind, by their names.

        >>> Epilogue.parse("relu(accum + 2)").computed({"accum": -3.0}, {"relu": lambda x: max(x, 0.0)}.__getitem__)
        0.0
        """
        return _computed(ast.parse(self.expression, mode="eval").body, values, function, number)

    def roundings(self, term: float) -> float:
        """How large a value is rounded to the dtype of the result on the way, in all, where terms are ``term`` in size:
        the operators convert the product first, and then compute in that dtype. Values of sigmoid and tanh are at most
        one; relu rounds nothing.

        >>> Epilogue.parse("relu(accum + bias)").roundings(4), Epilogue.parse("sigmoid(accum)").roundings(4)
        (8, 2)
        """
        nodes = _nodes(ast.parse(self.expression, mode="eval").body)
        operations = sum(isinstance(node, ast.BinOp) for node in nodes)
        called = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
        large = operations + called.count("exp")
        return large * term + called.count("sigmoid") + called.count("tanh") + (term if large else 1)


def _nodes(node: ast.expr) -> list[ast.expr]:
    """An expression and all that it is computed from; the name of a function is not a value."""
    inner: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        inner = [node.left, node.right]
    elif isinstance(node, ast.Call):
        inner = list(node.args)
    return [node, *(n for child in inner for n in _nodes(child))]


def _wrong(node: ast.expr) -> str | None:
    if isinstance(node, ast.BinOp):
        return None if isinstance(node.op, _OPERATIONS) else "only + - * / are known: use these"
    if isinstance(node, ast.Name):
        names = ("accum", *NAMES)
        return None if node.id in names else f"{node.id!r} is not known: use {', '.join(names)}"
    if isinstance(node, ast.Constant):
        return None if type(node.value) in (int, float) else f"{node.value!r} is not a number: use numbers"
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        good = name in FUNCTIONS and len(node.args) == 1 and not node.keywords
        return None if good else f"only functions of one value are known: use {', '.join(FUNCTIONS)}"
    return f"{ast.unparse(node)!r} is not known: use names, numbers, + - * / and functions"


def _torch_function(name: str) -> Any:
    import torch

    return getattr(torch.nn.functional, name, None) or getattr(torch, name)


def _computed(
    node: ast.expr, values: Mapping[str, Any], function: Callable[[str], Any], number: Callable[[float], Any]
) -> Any:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, (int, float))
        return number(node.value)
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        return function(node.func.id)(_computed(node.args[0], values, function, number))
    assert isinstance(node, ast.BinOp)
    left, right = (_computed(side, values, function, number) for side in (node.left, node.right))
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    return left * right if isinstance(node.op, ast.Mult) else left / right
