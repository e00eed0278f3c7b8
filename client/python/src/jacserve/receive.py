"""Receives rows: one stream after another until every row is there, several side by side when asked to.

In: a server, a request, row ranges, a sink. Out: the rows in the sink, or what ended the attempt as an exception.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Protocol

import grpc

from jacserve.errors import CancelledError, DataLossError, JacserveError, NotFoundError, UnavailableError
from jacserve.header import HeaderChecker
from jacserve.layout import Layout
from jacserve.ranges import Range, split_evenly
from jacserve.request import Blob, Prepared
from jacserve.retry import Retry
from jacserve.stream import Sink, StreamChecker


class Connection(Protocol):
    """What receiving needs of a Server."""

    def upload(self, blobs: dict[bytes, Blob]) -> int: ...
    def forget_uploads(self) -> None: ...
    def open_stream(self, request: Any) -> Any: ...
    def error_of(self, failed: Any, layers: Any = None) -> Exception: ...


class Cancellation:
    """Ends streams from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: set[Any] = set()
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()
        with self._lock:
            for stream in self._streams:
                stream.cancel()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)

    def watch(self, stream: Any) -> None:
        with self._lock:
            self._streams.add(stream)
        if self.requested:
            stream.cancel()

    def leave(self, stream: Any) -> None:
        with self._lock:
            self._streams.discard(stream)


def may_continue(error: JacserveError, checker: StreamChecker) -> bool:
    """Whether asking for the missing rows again may help."""
    if checker.sink_failed:
        return False
    if isinstance(error, DataLossError):
        return not isinstance(error.__cause__, grpc.RpcError)  # the server's own: rows that no worker can compute
    # Cancelled without our asking: a server that is being ended cuts its calls off.
    return isinstance(error, (UnavailableError, CancelledError, NotFoundError))


def _read_stream(server: Connection, prepared: Prepared, checker: StreamChecker, cancel: Cancellation) -> None:
    """Reads one stream to its end."""
    started = time.monotonic()
    stream = server.open_stream(checker.request_for(prepared))
    cancel.watch(stream)
    checker.start_stream()
    try:
        messages: Iterator[bytes] = iter(stream)
        for message in messages:
            checker.on_message(message)
            if checker.enough:
                return
        checker.finish_stream()
        prepared.computed.add(checker.summary, started)
    except grpc.RpcError as failed:
        raise server.error_of(failed, prepared.names_to_layers) from failed
    finally:
        stream.cancel()  # no-op at the end; otherwise the workers stop
        cancel.leave(stream)


def receive(server: Connection, prepared: Prepared, checker: StreamChecker, cancel: Cancellation) -> None:
    """Reads streams until the checker has all rows. JacserveError: the last one when no progress came of 10 tries."""
    retry = Retry()
    while True:
        progress = checker.progress
        server.upload(dict(prepared.blobs))
        try:
            _read_stream(server, prepared, checker, cancel)
            if checker.complete:
                return
            continue
        except JacserveError as error:
            if cancel.requested:
                raise CancelledError("interrupted") from error
            if isinstance(error, NotFoundError) and retry.failures:
                raise  # it was just given everything
            server.forget_uploads()  # a server that came back may have lost what it was given
            if not may_continue(error, checker):
                raise
            if checker.progress > progress:
                retry.progressed()
            seconds = retry.next_wait(error.message)
            if seconds is None:
                raise type(error)(f"gave up after {retry.failures} tries: {error.message}", error.hint) from error
            cancel.wait(seconds)


def receive_header(server: Connection, prepared: Prepared, rows: Range | None = None) -> HeaderChecker:
    """Layout and value, and all of `rows` where they are small."""
    checker = HeaderChecker(prepared, rows)
    receive(server, prepared, checker, Cancellation())
    return checker


def receive_rows(
    server: Connection,
    prepared: Prepared,
    layout: Layout,
    rows: list[Range],
    sink: Sink,
    *,
    streams: int = 1,
    cancel: Cancellation | None = None,
) -> list[StreamChecker]:
    """Rows of the target into the sink. With `streams` > 1 it is called from as many threads."""
    cancel = cancel or Cancellation()
    parts = split_evenly(rows, streams, layout.row_tile)
    checkers = [StreamChecker(part, layout, sink) for part in parts]
    if len(checkers) <= 1:
        for checker in checkers:
            receive(server, prepared, checker, cancel)
        return checkers
    with ThreadPoolExecutor(len(checkers), thread_name_prefix="jacserve") as pool:
        futures = [pool.submit(receive, server, prepared, checker, cancel) for checker in checkers]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(future.done() and future.exception() is None for future in futures):
                cancel.cancel()
    failures = [future.exception() for future in futures if future.exception() is not None]
    # The first to fail cancels the others, whose words say nothing.
    failures.sort(key=lambda error: isinstance(error, CancelledError))
    if failures and failures[0] is not None:
        raise failures[0]
    return checkers
