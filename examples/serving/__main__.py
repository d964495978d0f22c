"""``python -m serving``: start the service. It listens when everything is loaded, and stops cleanly at SIGTERM."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence

from serving import cuda_context

KERNELS = ("cache", "compile", "torch")  # the names of start.KINDS, which import torch


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 after a clean end.

    What a start makes stays, so it is not searched for garbage: neither while it is made, a sixth of a start,
    nor later.
    """
    gc.disable()
    parser = argparse.ArgumentParser(prog="python -m serving", description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    kinds = "out of caches, frozen; compiled now by the DSL; or torch's, small, on the CPU"
    parser.add_argument("--kernels", choices=KERNELS, default="cache", help=kinds)
    parser.add_argument("--lazy", action="store_true", help="listen at once: the first requests load, or compile")
    drain = "after SIGTERM, for how long requests are still taken while /healthz says 503"
    parser.add_argument("--drain", type=float, default=2.0, metavar="SECONDS", help=drain)
    options = parser.parse_args(arguments)
    if options.kernels != "torch":
        cuda_context.make_in_thread()
    from serving.server import serve
    from serving.start import KINDS, start

    started = start(KINDS[options.kernels], lazy=options.lazy)
    gc.freeze()
    gc.enable()
    return serve(started, options.host, options.port, options.drain)


if __name__ == "__main__":
    sys.exit(main())
