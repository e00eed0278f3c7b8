"""What a Jacobian consists of: target, rows and blocks, checked once so that nobody after needs to.

In: a stream's header as it came over the wire. Out: shapes, numpy types and byte counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jacserve.errors import DataLossError, version_mismatch
from jacserve.wire.messages import enum_number

Shape = tuple[int, ...]

_FLOATS: dict[int, np.dtype[Any]] = {
    enum_number("DataType", "DATA_TYPE_FLOAT32"): np.dtype("<f4"),
    enum_number("DataType", "DATA_TYPE_FLOAT64"): np.dtype("<f8"),
}
_UNCONNECTED = enum_number("BlockStatus", "BLOCK_STATUS_UNCONNECTED")
_DENSE = enum_number("Encoding", "ENCODING_DENSE")
PRECISIONS = {
    name: enum_number("Precision", f"PRECISION_{name.upper()}") for name in ("fp32", "fp64", "tf32", "fp16", "bf16")
}
_MAX_BYTES = (1 << 63) - 1


@dataclass(frozen=True)
class Block:
    """The columns of one parameter or input.

    Attributes:
        name: the graph's own; of an input of the second batch, "second." + name.
        parameter_shape: of the parameter or of the whole input batch, in elements.
        shape: of the block's Jacobian: target shape + parameter_shape.
        dtype: of the Jacobian's numbers.
        connected: False: the target does not reach it, and there are no numbers, which is not the same as zeros.
    """

    name: str
    parameter_shape: Shape
    shape: Shape
    dtype: np.dtype[Any]
    connected: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes of the block's Jacobian, of all rows of `shape`; 0 when unconnected."""
        return math.prod(self.shape) * self.dtype.itemsize if self.connected else 0

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.parameter_shape) * self.dtype.itemsize if self.connected else 0


@dataclass(frozen=True)
class Layout:
    """One answer's target and blocks; equal for equal numbers, whatever computed them."""

    target_shape: Shape
    value_dtype: np.dtype[Any]
    blocks: tuple[Block, ...]
    precision: str
    row_tile: int = field(default=1, compare=False)  # rows computed together; aligned ranges cost nothing extra
    backend: str = field(default="", compare=False)
    device: str = field(default="", compare=False)
    workers: int = field(default=0, compare=False)
    notices: tuple[str, ...] = field(default=(), compare=False)  # for people: no errors, but perhaps not meant

    @property
    def target_rows(self) -> int:
        return math.prod(self.target_shape)

    @property
    def row_nbytes(self) -> int:
        return sum(block.row_nbytes for block in self.blocks)


def _bad_header(what: str) -> DataLossError:
    return DataLossError(f"the server's answer cannot be read: {what}")


def _shape_of(sizes: Any, what: str) -> Shape:
    shape = tuple(int(size) for size in sizes)
    if any(size < 0 for size in shape):
        raise _bad_header(f"{what} has shape {list(shape)}")
    return shape


def _block_of(block: Any, target_shape: Shape) -> Block:
    connected = block.status != _UNCONNECTED
    dtype = _FLOATS.get(block.dtype)
    if dtype is None and connected:
        raise _bad_header(f"block '{block.name}' holds no floats")
    parameter_shape = _shape_of(block.shape, f"block '{block.name}'")
    shape = target_shape + parameter_shape
    result = Block(block.name, parameter_shape, shape, dtype or np.dtype("<f4"), connected)
    if result.nbytes > _MAX_BYTES:
        raise _bad_header(f"block '{block.name}' has shape {list(shape)}")
    return result


def layout_of(header: Any) -> Layout:
    """A JacobianHeader as a Layout. DataLossError: sizes, types or names that no server may send."""
    target_shape = _shape_of(header.target_shape, "the target")
    value_dtype = _FLOATS.get(header.value_dtype)
    if value_dtype is None:
        raise _bad_header("the target's value holds no floats")
    if header.encoding != _DENSE:
        raise version_mismatch("", "its rows are encoded in an unknown way")
    blocks = tuple(_block_of(block, target_shape) for block in header.blocks)
    names = [block.name for block in blocks]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise _bad_header(f"block '{twice.pop()}' comes twice")
    precision = next((name for name, number in PRECISIONS.items() if number == header.precision), "fp32")
    return Layout(
        target_shape,
        value_dtype,
        blocks,
        precision,
        row_tile=max(1, header.row_tile),
        backend=header.backend,
        device=header.device,
        workers=header.workers,
        notices=tuple(header.notices),
    )
