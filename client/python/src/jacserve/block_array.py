"""One block of a Jacobian, read as a numpy array is.

In: basic indices. Out: numpy arrays of what they name; only the rows that are needed travel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jacserve.indexing import plan
from jacserve.layout import Block, Shape
from jacserve.ranges import Range
from jacserve.row_source import RowSource
from jacserve.sizes import size_text


class BlockArray:
    """A block's Jacobian, shape target shape + parameter shape. Index it with integers, slices, ... and None; rows are
    fetched then, this block's columns alone, and the last ones are kept.

    `numpy.asarray(block)` fetches all of it.
    """

    def __init__(self, source: RowSource, block: Block, rows: Range, leading: Shape) -> None:
        self._source = source
        self._block = block
        self._rows = rows
        self._leading = leading

    @property
    def name(self) -> str:
        return self._block.name

    @property
    def shape(self) -> Shape:
        return self._leading + self._block.parameter_shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._block.dtype

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """IndexError: not basic indexing, or out of bounds. JacserveError: the server's."""
        wanted = plan(key, self._leading, self._block.parameter_shape)
        taken = self._source.take(self._block, wanted.rows + self._rows[0], wanted.row_key, self._rows)
        return taken.reshape(wanted.shape)[()]  # a scalar as numpy gives it

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("rows are fetched into new memory; copy=False cannot be had")
        array: NDArray[Any] = np.asarray(self[...])
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<jacserve block '{self.name}' {self.shape} {self.dtype}, {size_text(self.nbytes)}>"
