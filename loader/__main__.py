"""``python -m precast.loader``: what is installed, what would be chosen, and what is wrong, without the builder."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from precast.loader.command_line.text import folded, table, terminal_width
from precast.loader.errors import ConfigError, FormatError, PrecastError, TargetError
from precast.loader.terminal_text import visible

_ABOUT = "List the kernels that are installed, explain a choice, check this machine, explain an error."
FAILED, WRONG, INTERRUPTED = 1, 2, 130
_WRONG_REQUEST = (ConfigError, FormatError, TargetError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status: 0 done, 1 failed or not served, 2 the request is wrong."""
    options = _parser().parse_args(argv)
    try:
        status: int = options.command(options)
        sys.stdout.flush()
    except PrecastError as error:
        print(visible(f"error: {error} ({error.code})"), file=sys.stderr)
        return WRONG if isinstance(error, _WRONG_REQUEST) else FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone: the interpreter's last flush must not complain
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return FAILED
    return status


def _list(options: argparse.Namespace) -> int:
    from precast import loader
    from precast.loader.command_line.listing import NO_CACHES, artifact_table, listed

    caches = loader.caches()
    rows = listed(caches, options.op, options.where)
    text = artifact_table(rows) if any(cache.index for cache in caches) else NO_CACHES
    return _print(options, [row.to_json() for row in rows], text)


def _explain(options: argparse.Namespace) -> int:
    from precast.loader.command_line.explanation import explained, to_json

    decision = explained(
        options.op,
        options.config,
        device=options.device,
        target=options.target,
        problem=options.problem,
        verified=options.verified,
    )
    _print(options, to_json(decision), str(decision))
    return FAILED if decision.chosen is None else 0


def _doctor(options: argparse.Namespace) -> int:
    from precast.loader.command_line.checks import loader_checks, render

    checks = tuple(loader_checks())
    _print(options, [asdict(check) for check in checks], render(checks, terminal_width(sys.stdout)))
    return FAILED if any(check.status == "fail" for check in checks) else 0


def _error(options: argparse.Namespace) -> int:
    from precast.loader.command_line.error_page import entries, find

    if not options.code:
        rows = [(entry.code, entry.name, entry.summary) for entry in entries()]
        return _print(options, [asdict(e) for e in entries()], table(("code", "error", "meaning"), rows))
    entry = find(options.code)
    return _print(options, asdict(entry), folded(str(entry), terminal_width(sys.stdout) or 100))


def _caches(options: argparse.Namespace) -> int:
    from precast import loader
    from precast.loader.command_line.listing import cache_table, cache_to_json

    caches = loader.caches()
    _print(options, [cache_to_json(cache) for cache in caches], cache_table(caches))
    return FAILED if any(cache.error for cache in caches) else 0


def _print(options: argparse.Namespace, data: Any, text: str) -> int:
    print(json.dumps(data, sort_keys=True, indent=2) if options.json else visible(text))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m precast.loader", description=_ABOUT, allow_abbrev=False)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Any, about: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False)
        sub.set_defaults(command=command)
        sub.add_argument("--json", action="store_true", help="print the result as JSON")
        return sub

    sub = add("list", _list, "list the artifacts of the installed caches")
    sub.add_argument("--op", default="", help="only those of this op")
    sub.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="only those with this value in their config; may be repeated",
    )
    sub = add("explain", _explain, "print which artifact loader.get takes, and why it takes no other")
    sub.add_argument("op", metavar="OP", help="the op")
    sub.add_argument("config", metavar="KEY=VALUE", nargs="*", help="the config, such as dtype=bfloat16 tile=[64,128]")
    sub.add_argument("--target", metavar="SM", help="for this architecture, such as sm_90a, instead of this GPU")
    sub.add_argument("--device", type=int, metavar="N", help="for this GPU")
    sub.add_argument(
        "--problem",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="a size of the call, such as m=4096; may be repeated",
    )
    sub.add_argument("--verified", choices=("gpu", "emulated"), default="", help="only what was verified so")
    add("doctor", _doctor, "check this machine: packages, driver, GPUs, caches")
    sub = add("error", _error, "explain an error by its code, or list all")
    sub.add_argument("code", metavar="CODE", nargs="?", default="", help="the code, such as PCL07, or the class's name")
    add("caches", _caches, "list the caches in the order in which they are searched")
    return parser


if __name__ == "__main__":
    sys.exit(main())
