"""Checks a Jacobian stream's messages against what was asked, and hands them on.

In: messages in the order of arrival, over one stream or several that continue each other; nothing here does I/O, so the
blocking and the async client share it. Out: calls to a sink that need no further checks, and which rows are missing.
"""

from __future__ import annotations

from typing import Any, Protocol

from jacserve.errors import DataLossError, PreconditionError, RowsOutOfRangeError
from jacserve.layout import Layout, layout_of
from jacserve.ranges import Range, RangeSet
from jacserve.request import Prepared
from jacserve.wire.events import Chunk, parse_event
from jacserve.wire.messages import ComputeJacobianRequest

_MAX_RANGES = 1_000


class Sink(Protocol):
    """Takes rows. Each call may come from another thread, and pieces may come twice."""

    def on_chunk(self, block: int, byte_begin: int, data: memoryview) -> None:
        """Bytes of the C-order array of all the target's rows of block number `block`."""

    def on_rows_done(self, begin: int, end: int) -> None:
        """All pieces of these rows, of every connected block, came before."""


def _bad(what: str) -> DataLossError:
    return DataLossError(f"the server's answer is damaged: {what}")


class StreamChecker:
    """Of one set of row ranges; `layout` None: of no rows, to learn layout and value.

    Attributes:
        layout: after the header.
        value: the target's value, bytes in C order; only collected when the layout was not known.
        summary: the last stream's JacobianSummary.
        payload_nbytes: of all chunks, repeats included.
        sink_failed: the exception that on_message raised was the sink's.
    """

    def __init__(self, wanted: list[Range], layout: Layout | None, sink: Sink) -> None:
        self.layout = layout
        self.value = bytearray()
        self.summary: Any = None
        self.payload_nbytes = 0
        self.sink_failed = False
        self._wanted = RangeSet(wanted)
        self._first_row = wanted[0][0] if wanted else 0
        self._sink = sink
        self._collects_value = layout is None
        self._done = RangeSet()
        self._asked: list[Range] = []
        self._value_seen = RangeSet()
        self._bytes_seen: list[RangeSet] = []
        self._header_seen = False

    @property
    def complete(self) -> bool:
        """Every row is there, and the layout."""
        return self.layout is not None and (self.enough or self.summary is not None) and not self._missing()

    @property
    def enough(self) -> bool:
        """The rest of the stream is not wanted."""
        return False

    @property
    def _value_is_complete(self) -> bool:
        return self.layout is not None and self._value_seen.contains(0, self.layout.target_rows)

    @property
    def progress(self) -> int:
        """Rows done; grows with everything new that arrives."""
        return len(self._done)

    def request_for(self, prepared: Prepared) -> Any:
        """The next ComputeJacobianRequest: for rows that are missing, at most 1,000 ranges of them."""
        self._asked = self._missing()[:_MAX_RANGES]
        first, *more = self._asked or [(self._first_row, self._first_row)]
        request = ComputeJacobianRequest()
        request.spec.CopyFrom(prepared.spec)
        request.rows.begin, request.rows.count = first[0], first[1] - first[0]
        for begin, end in more:
            request.more_rows.add(begin=begin, count=end - begin)
        return request

    def start_stream(self) -> None:
        """A new stream: its header and value come again."""
        self._header_seen = False
        self.summary = None

    def on_message(self, message: bytes) -> None:
        """DataLossError: damaged, or not what was asked for; asking again for the missing rows may help.
        PreconditionError: the layout is another than before. Anything else is the sink's."""
        event = parse_event(message)
        if isinstance(event, Chunk):
            self._on_chunk(event)
            return
        kind = event.WhichOneof("event")
        if kind == "header":
            self._on_header(event.header)
        elif not self._header_seen:
            raise _bad("it does not begin with its header")
        elif self.summary is not None:
            raise _bad("something follows its summary")
        elif kind == "value":
            self._on_value(event.value)
        elif kind == "rows_done":
            rows = event.rows_done.rows
            self._on_rows_done(rows.begin, rows.begin + rows.count)
        elif kind == "summary":
            self.summary = event.summary

    def finish_stream(self) -> None:
        """After the stream's last message. DataLossError: rows asked for or parts of the value are missing."""
        if self.layout is None or not self._header_seen or self.summary is None:
            raise _bad("it ended before its summary")
        if not self._value_is_complete:
            raise _bad("parts of the target's value are missing")
        for begin, end in self._asked:
            for gap in self._done.missing_from(begin, end):
                raise _bad(f"rows {gap[0]}:{gap[1]} never came")

    def _missing(self) -> list[Range]:
        return [gap for begin, end in self._wanted for gap in self._done.missing_from(begin, end)]

    def _on_header(self, header: Any) -> None:
        if self._header_seen:
            raise _bad("it has two headers")
        layout = layout_of(header)
        self._header_seen = True
        if self.layout is not None and layout != self.layout:
            raise PreconditionError("the server now answers the same request with other blocks; start again")
        self.layout = layout
        for begin, end in self._wanted:
            if end > layout.target_rows:
                raise RowsOutOfRangeError(f"rows {begin}:{end} of a target {list(layout.target_shape)}")
        if not self._bytes_seen:
            self._bytes_seen = [RangeSet() for _ in layout.blocks]

    def _on_value(self, value: Any) -> None:
        assert self.layout is not None
        itemsize = self.layout.value_dtype.itemsize
        begin, size = value.element_begin, len(value.data)
        end = begin + size // itemsize
        if size % itemsize or begin < 0 or end > self.layout.target_rows:
            raise _bad("a piece of the value lies outside the target")
        self._value_seen.add(begin, end)
        if self._collects_value:
            if not self.value:
                self.value = bytearray(self.layout.target_rows * itemsize)
            self.value[begin * itemsize : end * itemsize] = value.data

    def _on_chunk(self, chunk: Chunk) -> None:
        if not self._header_seen or self.layout is None or self.summary is not None:
            raise _bad("a chunk outside of header and summary")
        if chunk.block >= len(self.layout.blocks) or not self.layout.blocks[chunk.block].connected:
            raise _bad("a chunk of a block that was not announced")
        block = self.layout.blocks[chunk.block]
        if not self._wanted.contains(chunk.row_begin, chunk.row_begin + chunk.row_count):
            raise _bad(f"a chunk of rows that were not asked for, beginning with {chunk.row_begin}")
        size = len(chunk.data)
        itemsize = block.dtype.itemsize
        slab_bytes = chunk.row_count * block.row_nbytes
        if chunk.byte_offset + size > slab_bytes or chunk.byte_offset % itemsize or size % itemsize:
            raise _bad(f"a chunk of '{block.name}' does not fit its {chunk.row_count} rows")
        byte_begin = chunk.row_begin * block.row_nbytes + chunk.byte_offset
        self._hand_on(self._sink.on_chunk, chunk.block, byte_begin, chunk.data)
        self._bytes_seen[chunk.block].add(byte_begin, byte_begin + size)
        self.payload_nbytes += size

    def _on_rows_done(self, begin: int, end: int) -> None:
        assert self.layout is not None
        if not self._wanted.contains(begin, end):
            raise _bad("it reports rows that were not asked for")
        for fresh_begin, fresh_end in self._done.missing_from(begin, end):
            for block, seen in zip(self.layout.blocks, self._bytes_seen, strict=True):
                if not seen.contains(fresh_begin * block.row_nbytes, fresh_end * block.row_nbytes):
                    raise _bad(f"parts of '{block.name}' are missing from rows {fresh_begin}:{fresh_end}")
        self._hand_on(self._sink.on_rows_done, begin, end)
        self._done.add(begin, end)

    def _hand_on(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except BaseException:
            self.sink_failed = True
            raise
