"""Messages of a Jacobian stream, for tests.

In: rows, bytes. Out: serialized JacobianEvents. The target has 4 rows, the block "w" 3 float32 columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash

from jacserve.wire.messages import JacobianEvent, enum_number

ROWS = 4
COLUMNS = 3
WHOLE = np.arange(ROWS * COLUMNS, dtype="<f4").reshape(ROWS, COLUMNS)
VALUE = np.arange(ROWS, dtype="<f4")
_FLOAT32 = enum_number("DataType", "DATA_TYPE_FLOAT32")


def header(**changes: Any) -> bytes:
    event = JacobianEvent()
    event.header.target_shape.append(changes.get("rows", ROWS))
    event.header.value_dtype = _FLOAT32
    for name, status in (("w", "CONNECTED"), ("u", "UNCONNECTED")):
        block = event.header.blocks.add(name=changes.get("name", name), dtype=changes.get("dtype", _FLOAT32))
        block.shape.append(changes.get("columns", COLUMNS))
        block.status = enum_number("BlockStatus", f"BLOCK_STATUS_{status}")
    event.header.encoding = changes.get("encoding", enum_number("Encoding", "ENCODING_DENSE"))
    event.header.precision = enum_number("Precision", "PRECISION_FP32")
    event.header.row_tile = 2
    return event.SerializeToString()


def value(begin: int = 0, data: bytes = VALUE.tobytes()) -> bytes:
    event = JacobianEvent()
    event.value.element_begin = begin
    event.value.data = data
    return event.SerializeToString()


def chunk(begin: int, count: int, offset: int = 0, data: bytes | None = None, **changes: Any) -> bytes:
    """Rows [begin, begin + count) of "w", from byte `offset` of their slab on."""
    event = JacobianEvent()
    if data is None:
        data = WHOLE[begin : begin + count].tobytes()[offset:]
    event.chunk.block = changes.get("block", 0)
    event.chunk.row_begin, event.chunk.row_count, event.chunk.byte_offset = begin, count, offset
    event.chunk.checksum = changes.get("checksum", xxhash.xxh3_64_intdigest(data))
    event.chunk.data = data
    return event.SerializeToString()


def rows_done(begin: int, count: int) -> bytes:
    event = JacobianEvent()
    event.rows_done.rows.begin, event.rows_done.rows.count = begin, count
    return event.SerializeToString()


def summary() -> bytes:
    event = JacobianEvent()
    event.summary.rows = ROWS
    return event.SerializeToString()


def answer(request: Any) -> list[bytes]:
    """A right answer, a row at a time."""
    events = [header(), value()]
    ranges = [(rows.begin, rows.begin + rows.count) for rows in (request.rows, *request.more_rows)]
    for begin, end in ranges if request.HasField("rows") else [(0, ROWS)]:
        for row in range(begin, end):
            events += [chunk(row, 1), rows_done(row, 1)]
    return [*events, summary()]
