"""Rows in memory: what `jac.rows(a, b)` gives.

In: arrays being filled by a stream. Out: a mapping from block names to arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jacserve.arrays import raw_bytes
from jacserve.layout import Block, Layout
from jacserve.ranges import Range
from jacserve.sizes import size_text


class Rows(Mapping[str, "NDArray[Any] | None"]):
    """Rows [begin, end) of every block: {name: array of shape (end - begin,) + parameter shape}, None where the target
    does not reach the parameter.

    Attributes:
        begin, end: the rows, as numbered in the Jacobian that they came from.
    """

    def __init__(
        self,
        begin: int,
        end: int,
        arrays: dict[str, NDArray[Any] | None],
        unflatten: Callable[[Mapping[str, Any]], Any],
    ) -> None:
        self.begin = begin
        self.end = end
        self._arrays = arrays
        self._unflatten = unflatten

    def __getitem__(self, name: str) -> NDArray[Any] | None:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        """How many blocks; `end - begin` is how many rows."""
        return len(self._arrays)

    def numpy(self) -> dict[str, NDArray[Any] | None]:
        """A plain dict of the arrays, uncopied."""
        return dict(self._arrays)

    def unflatten(self) -> Any:
        """The arrays in the model's own structure: a list as of trainable_variables, a dict, a parameter pytree."""
        return self._unflatten(self._arrays)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values() if array is not None)

    def __repr__(self) -> str:
        return f"<jacserve.Rows {self.begin}:{self.end}, {len(self)} blocks, {size_text(self.nbytes)}>"


class MemorySink:
    """Fills arrays with several row ranges: rows of range k lie behind those of the ranges before it."""

    def __init__(
        self, layout: Layout, rows: list[Range], on_rows_done: Callable[[int, int], None] | None = None
    ) -> None:
        self._rows = rows
        self._row_nbytes = [block.row_nbytes for block in layout.blocks]
        self._begins = []  # where each range begins in the arrays, in rows
        count = 0
        for begin, end in rows:
            self._begins.append(count)
            count += end - begin
        self.arrays = [_empty(block, count) for block in layout.blocks]
        self._bytes = [None if array is None else _bytes_of(array) for array in self.arrays]
        self._report = on_rows_done

    def on_chunk(self, block: int, byte_begin: int, data: memoryview) -> None:
        row_nbytes = self._row_nbytes[block]
        if not data:
            return
        row = byte_begin // row_nbytes
        for at, (begin, end) in zip(self._begins, self._rows, strict=True):
            if begin <= row < end:
                place = byte_begin + (at - begin) * row_nbytes
                target = self._bytes[block]
                assert target is not None
                target[place : place + len(data)] = data
                return

    def on_rows_done(self, begin: int, end: int) -> None:
        if self._report is not None:
            self._report(begin, end)


def _empty(block: Block, count: int) -> NDArray[Any] | None:
    return np.empty((count, *block.parameter_shape), block.dtype) if block.connected else None


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return raw_bytes(array)
