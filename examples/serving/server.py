"""The process: it listens, and at SIGTERM it takes no new work, answers what it has, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import uvicorn

from serving.app import application
from serving.service import Service


def serve(service: Service, host: str, port: int, drain: float) -> int:
    """Serve until SIGTERM or SIGINT, and all that was taken is answered.

    Between the signal and the end, ``/healthz`` says 503 and each answer closes its connection, while requests are
    still taken for ``drain`` seconds: whoever balances the load needs that long to see it. Nobody is cut off.
    """
    config = uvicorn.Config(application(service), host=host, port=port, log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # its own handlers close idle connections at once; these are below

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def end() -> None:
            if service.draining:  # a second signal: at once
                server.should_exit = True
                return
            service.draining = True
            loop.call_later(drain, lambda: setattr(server, "should_exit", True))

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        await server.serve()

    service.engine.start()
    try:
        asyncio.run(run())
    finally:
        service.engine.stop()
    return 1 if service.engine.broken else 0
