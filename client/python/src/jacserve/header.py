"""Layout and value of a Jacobian; with them, where all of it is small, its rows.

In: messages of a stream. Out: what a Jacobian needs to exist. A small Jacobian costs one request instead of two, and
is read from memory afterwards.
"""

from __future__ import annotations

from typing import Any

from jacserve.errors import DataLossError
from jacserve.ranges import Range, RangeSet
from jacserve.request import Prepared
from jacserve.rows import MemorySink
from jacserve.stream import StreamChecker
from jacserve.wire.events import Chunk

SMALL_NBYTES = 1 << 20


class _Discard:
    def on_chunk(self, block: int, byte_begin: int, data: memoryview) -> None:
        raise DataLossError("the server's answer is damaged: rows that were not asked for")

    def on_rows_done(self, begin: int, end: int) -> None:
        pass


class HeaderChecker(StreamChecker):
    """Attributes: whole: all rows wanted, when they are small."""

    def __init__(self, prepared: Prepared, rows: Range | None) -> None:
        """`rows`: those wanted, None for all."""
        super().__init__([], None, _Discard())
        self.whole: MemorySink | None = None
        self._rows = rows
        # A row is about as large as the parameters; how many there are, only the header tells.
        self._asks_for_rows = sum(len(blob.data) for blob in prepared.blobs.values()) <= SMALL_NBYTES
        self._too_large = False

    @property
    def enough(self) -> bool:
        return self._too_large and self._value_is_complete

    def request_for(self, prepared: Prepared) -> Any:
        request = super().request_for(prepared)
        if self.layout is None and self._asks_for_rows:
            request.ClearField("rows")
            if self._rows is not None:
                request.rows.begin, request.rows.count = self._rows[0], self._rows[1] - self._rows[0]
        return request

    def _on_header(self, header: Any) -> None:
        is_first = self.layout is None
        super()._on_header(header)
        assert self.layout is not None
        if not is_first or not self._asks_for_rows:
            return
        begin, end = self._rows or (0, self.layout.target_rows)
        if (end - begin) * self.layout.row_nbytes > SMALL_NBYTES:
            self._too_large = True
        elif begin < end:
            self._asked = [(begin, end)]
            self._wanted = RangeSet(self._asked)
            self._sink = self.whole = MemorySink(self.layout, self._asked)

    def _on_chunk(self, chunk: Chunk) -> None:
        if not self._too_large:
            super()._on_chunk(chunk)

    def _on_rows_done(self, begin: int, end: int) -> None:
        if not self._too_large:
            super()._on_rows_done(begin, end)
