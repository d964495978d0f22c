"""Downloads: transfers, several at once, each resumed where it was interrupted. Nothing is checked here: the fetcher
compares each file with its digest in the index, and requests a wrong one once more."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import BinaryIO

from precast.fetch.distribution.layers import Transfer
from precast.fetch.source import Source
from precast.fetch.staging import Staging
from precast.fetch.transport.patience import Stopped, TransientError
from precast.fetch.transport.progress import Progress
from precast.fetch.transport.web import Web


class Download:
    """Transfers from a source into a staging folder. ``received`` counts the bytes that came over the network."""

    def __init__(self, source: Source, staging: Staging, web: Web, progress: Progress) -> None:
        self._source, self._staging, self._web, self._progress = source, staging, web, progress
        self._lock = threading.Lock()
        self.received = 0

    def run(self, transfers: Iterable[Transfer], threads: int) -> None:
        """Run all transfers. The first that fails for good stops the others, and its error is raised."""
        waiting = list(transfers)
        with ThreadPoolExecutor(min(threads, max(len(waiting), 1))) as pool:
            running = [pool.submit(self._one, transfer) for transfer in waiting]
            try:
                done, _ = wait(running, return_when=FIRST_EXCEPTION)
            except BaseException:  # such as Ctrl-C
                self._web.end()
                raise
            failures = [error for future in done if (error := future.exception())]
            if failures:
                self._web.end()
                raise next((error for error in failures if not isinstance(error, Stopped)), failures[0])

    def _one(self, transfer: Transfer) -> None:
        if self._web.stop.is_set():
            raise Stopped
        self._collect(transfer)
        self._staging.finish_part(transfer)

    def _collect(self, transfer: Transfer) -> None:
        with self._staging.part(transfer) as part:
            if part.tell() > transfer.size:
                part.truncate(0)
                part.seek(0)
            what = f"{self._source.pinned}: {transfer.source}"
            self._web.persist(what, lambda: self._add(transfer, part), part.tell)

    def _add(self, transfer: Transfer, part: BinaryIO) -> None:
        had = part.tell()
        if had == transfer.size:
            return
        with self._source.files.open(transfer.source, transfer.offset + had, transfer.size - had) as chunks:
            for chunk in chunks:
                part.write(chunk)
                had += len(chunk)
                self._count(len(chunk))
        part.flush()
        if had < transfer.size:
            raise TransientError(f"the connection ended after {had} of {transfer.size} bytes")

    def _count(self, number: int) -> None:
        with self._lock:
            self.received += number
        self._progress.advance(number)
