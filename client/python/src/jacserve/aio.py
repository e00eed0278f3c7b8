"""The async client: `jacobian`, `rows` and `batches` as coroutines, on grpc.aio.

    jac = await jacserve.aio.jacobian("net.onnx", x)
    rows = await jac.rows(0, 56)
    async for rows, arrays in jac.batches():
        ...

In: as the blocking functions of the same names. Out: as theirs. Exporting, hashing, uploading and starting a local
server run in a thread; rows arrive on the event loop.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from jacserve.api import HEADER_STEP, RowsSetting, ask, jacobian_of
from jacserve.connection import TLS, Server, metadata_for
from jacserve.errors import JacserveError, NotFoundError, RowsOutOfRangeError
from jacserve.header import HeaderChecker
from jacserve.jacobian import Jacobian, batch_rows
from jacserve.layout import Block, Layout, Shape
from jacserve.local_server import LocalServer
from jacserve.progress import ProgressSetting, Reporter, step
from jacserve.ranges import Range
from jacserve.receive import may_continue
from jacserve.request import Prepared
from jacserve.retry import Retry
from jacserve.rows import MemorySink, Rows
from jacserve.servers import connect as _connect
from jacserve.servers import local as _local
from jacserve.servers import server_for
from jacserve.sizes import parse_size
from jacserve.stream import StreamChecker
from jacserve.targets import Target
from jacserve.wire.calls import Calls, channel_options

# Channels belong to the event loop that made them.
_channels: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Server, Any]] = weakref.WeakKeyDictionary()


async def connect(address: str, *, token: str | None = None, tls: bool | TLS | None = None) -> Server:
    """As jacserve.connect."""
    return await asyncio.to_thread(_connect, address, token=token, tls=tls)


async def local(
    workers: int | str = "auto", device: str = "auto", memory_budget: int | str | None = None
) -> LocalServer:
    """As jacserve.local."""
    return await asyncio.to_thread(_local, workers, device, memory_budget)


def _calls(server: Server) -> Calls:
    of_this_loop = _channels.setdefault(asyncio.get_running_loop(), {})
    if server not in of_this_loop:
        options = channel_options(server.address)
        of_this_loop[server] = Calls(
            grpc.aio.secure_channel(server.address, server.tls.credentials(), options)
            if server.tls
            else grpc.aio.insecure_channel(server.address, options)
        )
    calls: Calls = of_this_loop[server]
    return calls


async def _read_stream(server: Server, prepared: Prepared, checker: StreamChecker) -> None:
    request = checker.request_for(prepared)
    started = time.monotonic()
    stream = _calls(server).compute_jacobian(request, metadata=tuple(metadata_for(server.token)))
    checker.start_stream()
    try:
        async for message in stream:
            checker.on_message(message)
            if checker.enough:
                return
        checker.finish_stream()
        prepared.computed.add(checker.summary, started)
    except grpc.RpcError as failed:
        raise server.error_of(failed, prepared.names_to_layers) from failed
    finally:
        stream.cancel()


async def _receive(server: Server, prepared: Prepared, checker: StreamChecker) -> None:
    """Reads streams until the checker has all rows, as receive.receive does."""
    retry = Retry()
    while not checker.complete:
        progress = checker.progress
        await asyncio.to_thread(server.upload, prepared.blobs)
        try:
            await _read_stream(server, prepared, checker)
        except JacserveError as error:
            if isinstance(error, NotFoundError) and retry.failures:
                raise
            server.forget_uploads()
            if not may_continue(error, checker):
                raise
            if checker.progress > progress:
                retry.progressed()
            seconds = retry.next_wait(error.message)
            if seconds is None:
                raise type(error)(f"gave up after {retry.failures} tries: {error.message}", error.hint) from error
            await asyncio.sleep(seconds)


class AsyncJacobian:
    """A Jacobian whose rows are awaited.

    Attributes:
        blocking: the same Jacobian as the blocking client's, for use in threads: slicing, to_npy and the like.
    """

    def __init__(self, blocking: Jacobian) -> None:
        self.blocking = blocking

    @property
    def shape(self) -> Shape:
        """Of the target, or (number of rows,) where only some rows were asked for."""
        return self.blocking.shape

    @property
    def value(self) -> NDArray[Any]:
        """The whole target itself."""
        return self.blocking.value

    @property
    def blocks(self) -> Mapping[str, Block]:
        """{name: Block}."""
        return self.blocking.blocks

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the blocks."""
        return self.blocking.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all rows of all blocks."""
        return self.blocking.nbytes

    @property
    def layout(self) -> Layout:
        """Target and blocks as the server sees them."""
        return self.blocking.layout

    def __len__(self) -> int:
        return len(self.blocking)

    def __repr__(self) -> str:
        return repr(self.blocking).replace("jacserve.Jacobian", "jacserve.aio.AsyncJacobian", 1)

    async def rows(self, begin: int = 0, end: int | None = None) -> Rows:
        """Rows [begin, end) of all blocks, in memory. RowsOutOfRangeError: not 0 <= begin <= end <= len(self)."""
        end = len(self) if end is None else end
        if not 0 <= begin <= end <= len(self):
            raise RowsOutOfRangeError(f"rows {begin}:{end} of a Jacobian with {len(self)} rows")
        reporter = Reporter(self.blocking.progress, end - begin, self.blocking.row_nbytes)
        try:
            return await self._fetch((begin, end), reporter)
        finally:
            reporter.close()

    async def batches(self, memory_limit: int | str | None = None) -> AsyncIterator[tuple[range, Rows]]:
        """All rows, in order, as (range of rows, Rows); while one batch is used, the next one arrives."""
        limit = self.blocking.memory_limit if memory_limit is None else parse_size(memory_limit, "memory_limit")
        batch = batch_rows(self.layout, limit)
        ranges = [(begin, min(begin + batch, len(self))) for begin in range(0, len(self), batch)]
        reporter = Reporter(self.blocking.progress, len(self), self.blocking.row_nbytes)
        ahead: asyncio.Task[Rows] | None = None
        try:
            for at, rows_range in enumerate(ranges):
                rows = await (ahead or self._fetch(rows_range, reporter))
                ahead = None
                if at + 1 < len(ranges):
                    ahead = asyncio.create_task(self._fetch(ranges[at + 1], reporter))
                yield range(*rows_range), rows
                del rows  # before the next one is waited for
        finally:
            reporter.close()
            if ahead is not None:
                ahead.cancel()

    async def _fetch(self, rows: Range, reporter: Reporter) -> Rows:
        jac = self.blocking
        first = jac.row_range[0]
        wanted = [(first + rows[0], first + rows[1])] if rows[0] < rows[1] else []
        if wanted and not jac.is_in_memory:
            sink = MemorySink(jac.layout, wanted, reporter.rows_done)
            await _receive(jac.server, jac.prepared, StreamChecker(wanted, jac.layout, sink))
            arrays = sink.arrays
        else:
            arrays = jac.whole_rows(*rows, reporter)
        named = dict(zip(jac.blocks, arrays, strict=True))
        return Rows(rows[0], rows[1], named, jac.functional.unflatten)


async def jacobian(
    model: Any,
    x: Any,
    *,
    target: Target | None = None,
    wrt: str | Sequence[str] | None = None,
    wrt_inputs: str | Sequence[str] | bool = (),
    weights: Any = None,
    shared_inputs: Mapping[str, Any] | None = None,
    precision: str | None = None,
    rows: RowsSetting = None,
    server: Server | str | None = None,
    method: str | None = None,
    memory_limit: int | str = "256MiB",
    progress: ProgressSetting = None,
) -> AsyncJacobian:
    """As jacserve.jacobian: same arguments, same errors."""
    asked = await asyncio.to_thread(
        ask, model, x, target, wrt, wrt_inputs, weights, shared_inputs, precision, rows, method, memory_limit, progress
    )
    chosen = await asyncio.to_thread(server_for, server)
    header = HeaderChecker(asked.prepared, asked.rows)
    with step(HEADER_STEP, progress):
        await _receive(chosen, asked.prepared, header)
    return AsyncJacobian(jacobian_of(chosen, asked, header, progress))
