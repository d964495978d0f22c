"""``python -m precast.loader.attach [options] script.py ...``: run a program with libraries attached."""

from __future__ import annotations

import argparse
import runpy
import sys

from precast.loader import attach


def main() -> None:
    """Attach, then run the script as if it had been started itself."""
    parser = argparse.ArgumentParser(prog="python -m precast.loader.attach", description=__doc__)
    parser.add_argument("--library", action="append", help="attach this one; all that are installed, if none is named")
    parser.add_argument("--mode", choices=["serve", "record", "frozen"], default="serve")
    parser.add_argument("--missing", choices=["compile", "raise"], default="compile")
    parser.add_argument("--recording", help="the file that recorded keys are added to")
    parser.add_argument("--without-compiler", action="store_true", help="the DSL is not installed here")
    parser.add_argument("--report", action="store_true", help="say at the end what was served, and what was not")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    attachment = attach.attach(
        options.library,
        mode=options.mode,
        missing=options.missing,
        recording=options.recording,
        without_compiler=options.without_compiler,
    )
    sys.argv = [options.script, *options.arguments]
    try:
        if options.module:
            runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, options.script.rpartition("/")[0] or ".")
            runpy.run_path(options.script, run_name="__main__")
    finally:
        if options.report:
            print("\n".join(map(str, attachment.counts())) or "no attached library asked for a kernel", file=sys.stderr)


if __name__ == "__main__":
    main()
