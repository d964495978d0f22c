"""PTX: the text that the compiler makes of each object, which it would otherwise discard.

The compiler can write it to a file, and only there. Each compilation gets a file of its own in a temporary folder, so
that kernels of the same name do not replace each other. The exported bytes are the same with and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from precast.build.disk.scratch import temporary_folder


class PtxKeeper:
    """The files to which the compiler writes PTX, while there is a folder for them."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._paths: list[Path] = []

    def install(self) -> PtxKeeper:
        """Hook into the compiler's options. With a version of the compiler that lacks them, no PTX is kept."""
        from cutlass.base_dsl import compiler

        options: Any = getattr(compiler, "CompileOptions", None)
        option_type = getattr(compiler, "KeepPTX", None)
        if option_type is None or not hasattr(options, "apply_envar_settings"):
            return self
        apply = options.apply_envar_settings

        def apply_and_keep(self_: Any, *args: Any, **kwargs: Any) -> Any:
            option = self_.options[option_type]
            if option.value and option.dump_path in map(str, self._paths):
                option.value = False  # by this function, for an earlier kernel: some of its callers share the options
            result = apply(self_, *args, **kwargs)
            # The author's own folder is used if it exists for the compilation, which is closed to most of them.
            mine = option.value and option.full_ptx_path and Path(option.full_ptx_path).parent.is_dir()
            if self._folder is not None and not mine:
                self._paths.append(self._folder / str(len(self._paths)))
                option.value, option.dump_path = True, str(self._paths[-1])
                option.full_ptx_path = ""  # else the compiler reads it, and that counts as a read of the author's code
            return result

        options.apply_envar_settings = apply_and_keep
        return self

    @contextmanager
    def folder(self) -> Iterator[None]:
        """Keep the PTX of what is compiled in this block. It can be read until the block ends."""
        with temporary_folder() as self._folder:
            try:
                yield
            finally:
                self._folder = None

    def begin(self) -> int:
        """The number of files so far: to be passed to ``path_since`` after a compilation."""
        return len(self._paths)

    def path_since(self, begun: int) -> Path | None:
        """The file of the compilation that began then, without the compiler's suffix; None where there is none."""
        return self._paths[begun] if begun < len(self._paths) else None


def text_of(compiled: Any, path: Path | None) -> str:
    """The PTX of a compiled object, from its file, or as the author's own options kept it; empty where there is none.

    Call it outside of the author's code, which would otherwise count as reading the file.
    """
    if path is None:
        return str(getattr(compiled, "__ptx__", None) or "")
    for file in sorted(path.parent.glob(f"{path.name}.*.ptx")):
        return file.read_text()
    return ""
