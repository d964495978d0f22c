"""``python -m precast.loader.fetch REFERENCE -o CACHE``: fetch a cache where only the loader is installed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from precast.fetch.fetcher import THREADS, fetch
from precast.fetch.transport.progress import Progress
from precast.loader.errors import ConfigError, PrecastError

_ABOUT = "Fetch a cache from a registry, a model hub or a folder, check every byte, and put it into place as a whole."
FAILED, WRONG, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch, print what was fetched, and return the exit status: 0 done, 1 failed, 2 the request is wrong."""
    options = _parser().parse_args(argv)
    try:
        with Progress() as progress:
            done = fetch(
                options.reference,
                options.output,
                digest=options.digest,
                reuse=options.reuse,
                trust=options.trust,
                threads=options.jobs,
                progress=progress,
            )
    except PrecastError as error:
        print(f"error: {error} ({error.code})", file=sys.stderr)
        return WRONG if isinstance(error, ConfigError) else FAILED
    except KeyboardInterrupt:
        print("interrupted: run it again to resume", file=sys.stderr)
        return INTERRUPTED
    try:
        print(json.dumps(done.to_json(), sort_keys=True, indent=2) if options.json else done, flush=True)
    except BrokenPipeError:  # the reader of our output has gone: the interpreter's last flush must not complain
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m precast.loader.fetch", description=_ABOUT, allow_abbrev=False)
    parser.add_argument(
        "reference",
        metavar="REFERENCE",
        help="oci://HOST/NAME:TAG, oci://HOST/NAME@sha256:DIGEST, hf://OWNER/NAME@REVISION, https://HOST/FOLDER or"
        " file:///FOLDER",
    )
    parser.add_argument("-o", "--output", required=True, metavar="CACHE", help="the folder of the cache")
    parser.add_argument(
        "--digest",
        default="",
        metavar="SHA256",
        help="the digest that index.json must have, as 'precast push' prints it",
    )
    parser.add_argument(
        "--reuse",
        action="append",
        default=[],
        metavar="CACHE",
        help="another cache on this disk whose blobs are reused; may be repeated",
    )
    parser.add_argument(
        "--trust",
        metavar="POLICY",
        help="a file with the pins, keys and identities of which one must vouch for the cache",
    )
    parser.add_argument("-j", "--jobs", type=_count, default=THREADS, metavar="N", help="transfers at once")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("give a number from 1 to 64")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
