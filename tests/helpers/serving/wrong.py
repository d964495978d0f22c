"""A service that is wrong in one way, for the load test to find: ``python wrong.py WAY --port N``.

It has the routes of ``examples/serving`` and no model. ``changes`` answers something else after a while, ``drops`` ends
at SIGTERM at once, ``loads`` counts a kernel with each answer, and ``refuses`` answers with 503 now and then.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

WAY, PORT = (sys.argv[1], int(sys.argv[3])) if __name__ == "__main__" else ("", 0)
_ANSWERED = itertools.count(1)
_SOME = 60
_ending = False


class Routes(BaseHTTPRequestHandler):
    """What the load test asks for."""

    protocol_version = "HTTP/1.1"
    number = 0

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._send(200, f"precast_loads_total {Routes.number if WAY == 'loads' else 3}\n")
        else:
            self._send(503 if _ending else 200, "")

    def do_POST(self) -> None:
        prompt = self.rfile.read(int(self.headers["Content-Length"]))
        Routes.number = next(_ANSWERED)
        time.sleep(0.005)
        if WAY == "refuses" and Routes.number % _SOME == 0:
            self._send(503, "{}")
        else:
            changed = WAY == "changes" and Routes.number > _SOME
            self._send(200, json.dumps({"tokens": [len(prompt)], "mark": int(changed)}))

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        if _ending:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Routes)

    def end(number: int, frame: FrameType | None) -> None:
        global _ending
        _ending = True
        if WAY == "drops":
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0.3)

    def leave(number: int, frame: FrameType | None) -> None:
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, leave)
    server.serve_forever(poll_interval=0.01)


if __name__ == "__main__":
    main()
