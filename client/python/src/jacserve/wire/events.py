"""One event of a Jacobian stream, as it came over the wire.

In: a message's bytes. Out: a Chunk whose data is a view of these bytes, or the parsed message for any other event.
Parsing a chunk as a message would copy its 2 MiB once more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import xxhash
from google.protobuf.message import DecodeError

from jacserve.errors import DataLossError
from jacserve.wire.messages import JacobianEvent

MAX_CHUNK_BYTES = 2 << 20

# Tags: field number << 3 | wire type (0 varint, 1 fixed 64, 2 bytes).
_EVENT_CHUNK = 3 << 3 | 2
_BLOCK = 1 << 3
_ROW_BEGIN = 2 << 3
_ROW_COUNT = 3 << 3
_BYTE_OFFSET = 4 << 3
_CHECKSUM = 5 << 3 | 1
_DATA = 15 << 3 | 2


class Chunk(NamedTuple):
    """A piece of the C-order slab that holds rows [row_begin, row_begin + row_count) of one block."""

    block: int
    row_begin: int
    row_count: int
    byte_offset: int  # within the slab
    data: memoryview  # raw little-endian numbers, their checksum verified


def _malformed(what: str) -> DataLossError:
    return DataLossError(f"a message of the Jacobian stream is damaged: {what}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where the next byte lies."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise _malformed("a number is too long")


def _skip(message: bytes, tag: int, at: int) -> int:
    kind = tag & 7
    if kind == 0:
        return _varint(message, at)[1]
    if kind == 1:
        return at + 8
    if kind == 5:
        return at + 4
    if kind == 2:
        size, at = _varint(message, at)
        return at + size
    raise _malformed("it holds no valid field")


def _parse_chunk(message: bytes) -> Chunk:
    size, at = _varint(message, 1)
    end = at + size
    if end != len(message):
        raise _malformed("a chunk does not end with its message")
    fields = {_BLOCK: 0, _ROW_BEGIN: 0, _ROW_COUNT: 0, _BYTE_OFFSET: 0}
    checksum = 0
    data = memoryview(b"")
    while at < end:
        tag, at = _varint(message, at)
        if tag == _DATA:
            size, at = _varint(message, at)
            if at + size != end:
                raise _malformed("a chunk's data does not end with the chunk")
            data = memoryview(message)[at:end]
            at = end
        elif tag == _CHECKSUM:
            checksum = int.from_bytes(message[at : at + 8], "little")
            at += 8
        elif tag in fields:
            fields[tag], at = _varint(message, at)
        else:
            at = _skip(message, tag, at)
    if at != end:
        raise _malformed("a chunk's fields run over its end")
    if len(data) > MAX_CHUNK_BYTES:
        raise _malformed("a chunk is larger than 2 MiB")
    if max(fields.values()) >= 1 << 63 or fields[_ROW_COUNT] < 1:
        raise _malformed("a chunk's range of rows is not one")
    chunk = Chunk(fields[_BLOCK], fields[_ROW_BEGIN], fields[_ROW_COUNT], fields[_BYTE_OFFSET], data)
    if xxhash.xxh3_64_intdigest(data) != checksum:
        raise DataLossError(
            f"the checksum of a chunk (block {chunk.block}, rows from {chunk.row_begin}) does not match its data"
        )
    return chunk


def parse_event(message: bytes) -> Any:
    """A Chunk, or a JacobianEvent of another kind. DataLossError: not a valid event, or a wrong checksum."""
    try:
        if message[:1] == bytes([_EVENT_CHUNK]):
            return _parse_chunk(message)
        event = JacobianEvent.FromString(message)
    except (IndexError, DecodeError) as error:
        raise _malformed("it ends within a field") from error
    if event.WhichOneof("event") == "chunk":
        raise _malformed("a chunk shares its message with another event")
    return event
