"""``python -m precast.loader.attach [options] script.py ...``: run a program with libraries attached."""

from __future__ import annotations

import argparse
import atexit
import os
import runpy
import sys
from types import TracebackType

from precast.attach.process import attach
from precast.loader.errors import PrecastError

_ABOUT = "Run a program with libraries attached: they take their kernels from caches, and no line of it changes."
_OWN_FILES = (__file__, runpy.__file__, "<frozen runpy>")


def main() -> None:
    """Attach, then run the script as if it had been started itself."""
    parser = _parser()
    options = parser.parse_args()
    if not options.module and not os.path.exists(options.script):
        parser.error(f"{options.script} does not exist: name a script, or a module with -m")
    try:
        attachment = attach(
            options.library,
            mode=options.mode,
            missing=options.missing,
            recording=options.recording,
            without_compiler=options.without_compiler,
            target=options.target,
        )
    except PrecastError as error:
        parser.error(f"{error} ({error.code})")
    if options.report:
        atexit.register(lambda: print(attachment, file=sys.stderr))
    _hide_own_frames()
    sys.argv = [options.script, *options.arguments]
    if options.module:
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        return
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the current folder, which "python -m" put there, and "python script.py" does not
        if os.path.isfile(options.script):
            sys.path.insert(0, os.path.dirname(os.path.realpath(options.script)))
    runpy.run_path(options.script, run_name="__main__")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m precast.loader.attach", description=_ABOUT, allow_abbrev=False)
    parser.add_argument(
        "--library",
        action="append",
        metavar="NAME",
        help="attach this library; may be repeated; all known ones that are installed, if none is named",
    )
    parser.add_argument(
        "--mode",
        choices=["serve", "record", "frozen"],
        help="serve: take kernels from caches (the default, unless PRECAST_ATTACH_MODE names another mode); frozen: the"
        " same, but a kernel that no cache has is an error with the manifest lines that would build it; record: also"
        " write every key to a file",
    )
    parser.add_argument(
        "--missing",
        choices=["compile", "raise", "skip"],
        default="compile",
        help="a kernel that no cache has is: compiled as before (the default); an error; or, with --mode record,"
        " replaced by one that does nothing, so that results are wrong",
    )
    parser.add_argument(
        "--target",
        metavar="SM",
        help="serve kernels that were built for this architecture, such as sm_90a, instead of the current device's",
    )
    parser.add_argument(
        "--recording",
        metavar="FILE",
        help="with --mode record, the file that keys are added to, one JSON text a line; PRECAST_RECORDING names it"
        " otherwise; 'precast record' makes a manifest",
    )
    parser.add_argument(
        "--without-compiler",
        action="store_true",
        help="let libraries be imported where nvidia-cutlass-dsl is not installed; refused where it is installed",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print to standard error at the end what each function of a library requested, and why it was not served",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="run a module: SCRIPT is its name")
    parser.add_argument("script", help="the script, or a folder or zip file with a __main__.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    return parser


def _hide_own_frames() -> None:
    """Have an error that ends the script shown as it would be without this module: from the script's frames on."""
    show, files = sys.excepthook, (*_OWN_FILES, sys.argv[0])  # the last is the loader's door to this module

    def show_script(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename in files:
            trace = trace.tb_next
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = show_script


if __name__ == "__main__":
    main()
