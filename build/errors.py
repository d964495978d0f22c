"""The errors of builds, and locations in the files that cause them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from precast.loader.errors import FormatError, PrecastError

_MOST_ERRORS = 10  # in the text of one exception; ``others`` has all


class Location(NamedTuple):
    """A location in a text file; lines and columns count from 1.

    >>> str(Location("kernels.yaml", 3, 9))
    'kernels.yaml:3:9'
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ManifestError(FormatError):
    """A manifest, or something that it lists, is wrong. The message starts with the file, line and column.

    >>> str(ManifestError("unknown key 'kernal'", Location("a.yaml", 2, 5)))
    "a.yaml:2:5: unknown key 'kernal'"
    """

    code = "PCB01"

    def __init__(self, message: str, location: Location) -> None:
        super().__init__(message)
        self.location = location
        self.others: tuple[ManifestError, ...] = ()
        """Further errors, in the order of their locations."""

    @property
    def own_text(self) -> str:
        """The location and the message of this error alone."""
        return f"{self.location}: {self.message}"

    def __str__(self) -> str:
        every = (self, *self.others)
        lines = [error.own_text for error in every[:_MOST_ERRORS]]
        hidden = len(every) - len(lines)
        return "\n".join([*lines, *([f"and {hidden} more errors"] if hidden > 0 else [])])


class ManifestErrors:
    """Errors of a manifest that are collected, so that an author sees all of them at once.

    >>> errors = ManifestErrors()
    >>> with errors.collected():
    ...     raise ManifestError("unknown key 'kernal'", Location("a.yaml", 2, 5))
    >>> errors.any
    True
    """

    def __init__(self) -> None:
        self._errors: list[ManifestError] = []

    @property
    def any(self) -> bool:
        """Whether there is an error."""
        return bool(self._errors)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep a ManifestError of the block; the program continues after it."""
        try:
            yield
        except ManifestError as error:
            self._errors.append(error)

    def check(self) -> None:
        """Raise the first error, with the others."""
        if not self._errors:
            return
        every = [part for error in self._errors for part in (error, *error.others)]
        first, *others = sorted(every, key=lambda error: error.location[1:])
        first.others = tuple(others)
        raise first


class DescribeError(PrecastError):
    """The process that reads kernels' declarations crashed, hung or did not start."""

    code = "PCB02"


class ToolError(PrecastError):
    """Something a build needs is not installed, or does not work."""

    code = "PCB03"


class ObjectError(PrecastError):
    """The compiled result of a kernel function is not an object that precast can ship."""

    code = "PCB05"


class LinkError(PrecastError):
    """The linker refused an object."""

    code = "PCB06"


class PlanError(PrecastError):
    """No host program could be derived from a kernel's host code."""

    code = "PCB07"


class StoreError(PrecastError):
    """The store, or the folder of a cache, cannot be read or written."""

    code = "PCB08"


class OutputError(StoreError):
    """A cache cannot be written at the folder that was named: the request itself is wrong."""

    code = "PCB09"


class WheelError(PrecastError):
    """A cache cannot be packed as a wheel."""

    code = "PCB10"


class MergeError(PrecastError):
    """Caches contradict each other, and cannot become one."""

    code = "PCB12"


class ClusterError(PrecastError):
    """The machines that should compile cannot be reached, or have other versions than this one."""

    code = "PCB13"


class ChangedInputError(PrecastError):
    """A file changed between the compilation that read it and the digest of its content."""

    code = "PCB15"


class UndeclaredInput(PrecastError, FileNotFoundError):
    """A kernel requests something that is not among its inputs, so that it is not there for its compilation.

    Code that can do without may handle it as a FileNotFoundError.
    """

    code = "PCB26"

    @classmethod
    def of_path(cls, path: str, at: str) -> UndeclaredInput:
        """The error for a file or folder, requested by a line such as ``norm.py:12``.

        >>> print(UndeclaredInput.of_path("/k/tiles.json", "norm.py:12"))
        norm.py:12 reads /k/tiles.json, which is not declared: add 'inputs: {files: [/k/tiles.json]}' to the manifest
        """
        return cls._of(at, f"reads {path}", f"files: [{path}]")

    @classmethod
    def of_program(cls, name: str, at: str) -> UndeclaredInput:
        """The error for a program."""
        return cls._of(at, f"starts {name}", f"programs: [{name}]")

    @classmethod
    def of_variable(cls, name: str, at: str) -> UndeclaredInput:
        """The error for an environment variable."""
        return cls._of(at, f"reads the variable {name}", f"variables: [{name}]")

    @classmethod
    def of_module(cls, name: str, path: str, distribution: str | None) -> UndeclaredInput:
        """The error for a module that no import statement names, of an installed distribution or of none."""
        declaration = f"packages: [{distribution}]" if distribution else f"files: [{path}]"
        return cls._of(f"the module {name}", "is imported by a computed name", declaration)

    @classmethod
    def of_network(cls, at: str) -> UndeclaredInput:
        """The error for a connection to another machine."""
        return cls(f"{at} uses the network, which no compilation has: write what it reads to a file, and declare that")

    @classmethod
    def of_interpreter(cls, at: str) -> UndeclaredInput:
        """The error for a further interpreter in the process."""
        return cls(f"{at} starts another interpreter in its process, in which nothing could be refused: do without it")

    @classmethod
    def _of(cls, at: str, does: str, declaration: str) -> UndeclaredInput:
        return cls(f"{at} {does}, which is not declared: add 'inputs: {{{declaration}}}' to the manifest")


class UnsteadyKernel(PrecastError):
    """A kernel was compiled twice, and the results differ."""

    code = "PCB27"

    @classmethod
    def of(cls, source: object, error: object = None) -> UnsteadyKernel:
        """The error for a function; ``error`` is that of the second compilation, if it failed.

        >>> print(UnsteadyKernel.of("norm:build"))
        norm:build was compiled twice, and the objects differ: it uses the time, random numbers, an address (id), an \
order, or a fact of the process or machine: remove that, or pass it by 'env:'
        """
        result = f"the second time failed with {error}" if error else "the objects differ"
        return cls(
            f"{source} was compiled twice, and {result}: it uses the time, random numbers, an address (id), an order, "
            "or a fact of the process or machine: remove that, or pass it by 'env:'"
        )
