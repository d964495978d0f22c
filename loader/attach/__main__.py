"""``python -m precast.loader.attach [options] script.py ...``: run a program with libraries attached."""

from __future__ import annotations

import argparse
import atexit
import os
import runpy
import sys
from types import TracebackType

from precast.loader import attach
from precast.loader.errors import PrecastError

_OWN_FILES = (__file__, runpy.__file__, "<frozen runpy>")


def main() -> None:
    """Attach, then run the script as if it had been started itself."""
    parser = _parser()
    options = parser.parse_args()
    if not options.module and not os.path.exists(options.script):
        parser.error(f"{options.script} does not exist: name a script, or a module with -m")
    try:
        attachment = attach.attach(
            options.library,
            mode=options.mode,
            missing=options.missing,
            recording=options.recording,
            without_compiler=options.without_compiler,
        )
    except PrecastError as error:
        parser.error(str(error))
    if options.report:
        atexit.register(lambda: print(attachment, file=sys.stderr))
    _hide_own_frames()
    sys.argv = [options.script, *options.arguments]
    if options.module:
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        return
    if not getattr(
        sys.flags, "safe_path", False
    ):  # the current folder, which "python -m" put there, and "python script.py" does not
        del sys.path[0]
        if os.path.isfile(options.script):
            sys.path.insert(0, os.path.dirname(os.path.realpath(options.script)))
    runpy.run_path(options.script, run_name="__main__")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m precast.loader.attach", description=__doc__, allow_abbrev=False)
    parser.add_argument("--library", action="append", help="attach this one; all that are installed, if none is named")
    parser.add_argument("--mode", choices=["serve", "record", "frozen"], default="serve")
    parser.add_argument("--missing", choices=["compile", "raise"], default="compile")
    parser.add_argument("--recording", help="the file that recorded keys are added to")
    parser.add_argument("--without-compiler", action="store_true", help="the DSL is not installed here")
    parser.add_argument("--report", action="store_true", help="say at the end what was served, and what was not")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="the script, or a folder or zip file with a __main__.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    return parser


def _hide_own_frames() -> None:
    """Have an error that ends the script shown as it would be without this module: from the script's frames on."""
    show = sys.excepthook

    def show_script(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
            trace = trace.tb_next
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = show_script


if __name__ == "__main__":
    main()
