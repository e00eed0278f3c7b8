"""The Jacobian: what it consists of, and ways to read it.

In: a request that a server has accepted. Out: rows and blocks as numpy arrays, or files; nothing is computed before it
is asked for, and nothing holds all of it unless it is told to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jacserve.block_array import BlockArray
from jacserve.computed import Computed
from jacserve.connection import Server
from jacserve.errors import RowsOutOfRangeError
from jacserve.functional import Functional
from jacserve.layout import Block, Layout, Shape
from jacserve.progress import ProgressSetting, Reporter
from jacserve.ranges import Range
from jacserve.receive import Cancellation
from jacserve.request import Prepared
from jacserve.row_source import RowSource
from jacserve.rows import Rows
from jacserve.sizes import parse_size, size_text

Path = str | PathLike[str]


class Jacobian:
    """Rows are the entries of the target in C order; columns are blocks, one per parameter or input.

    Attributes:
        shape: of the target, or (number of rows,) where only some rows were asked for.
        target_shape: of the whole target.
        value: the whole target itself, shape target_shape.
        blocks: {name: Block}, each with parameter_shape, shape, dtype, nbytes, connected.
        precision: what was computed with: "fp32", "fp64", "tf32", "fp16" or "bf16".
    """

    def __init__(
        self,
        source: RowSource,
        value: NDArray[Any],
        rows: Range | None,
        functional: Functional,
    ) -> None:
        layout = source.layout
        self._source = source
        self._asked = rows
        self._rows = rows or (0, layout.target_rows)
        self._functional = functional
        self.target_shape: Shape = layout.target_shape
        self.shape: Shape = layout.target_shape if rows is None else (rows[1] - rows[0],)
        self.value = value
        self.precision = layout.precision
        self.blocks: Mapping[str, Block] = {
            block.name: Block(
                block.name, block.parameter_shape, self.shape + block.parameter_shape, block.dtype, block.connected
            )
            for block in layout.blocks
        }

    @property
    def layout(self) -> Layout:
        """Target and blocks as the server sees them, with the backend and device that compute."""
        return self._source.layout

    @property
    def prepared(self) -> Prepared:
        """What is sent for it."""
        return self._source.prepared

    @property
    def computed(self) -> Computed:
        """Which worker computed which rows when, and how many numbers fp16 or bf16 lost: of all that was fetched until
        now."""
        return self._source.prepared.computed

    @property
    def server(self) -> Server:
        """Who computes it."""
        server = self._source.server
        assert isinstance(server, Server)
        return server

    @property
    def functional(self) -> Functional:
        """The model as it was exported."""
        return self._functional

    @property
    def memory_limit(self) -> int:
        """Bytes that slicing and batches() may hold besides their results."""
        return self._source.memory_limit

    @property
    def progress(self) -> ProgressSetting:
        """The progress= that it was asked for with."""
        return self._source.progress

    @property
    def row_range(self) -> Range:
        """Rows [begin, end) of the whole target that this Jacobian is of."""
        return self._rows

    @property
    def rows_asked(self) -> Range | None:
        """The rows= that it was asked for with; None: all."""
        return self._asked

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the blocks."""
        return np.result_type(*[block.dtype for block in self.layout.blocks] or [self.value.dtype])

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row, all blocks."""
        return self.layout.row_nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of all rows of all blocks."""
        return len(self) * self.row_nbytes

    def __len__(self) -> int:
        """How many rows."""
        return self._rows[1] - self._rows[0]

    def __iter__(self) -> Iterator[tuple[range, Rows]]:
        """As batches()."""
        return self.batches()

    def __contains__(self, name: object) -> bool:
        """Whether there is a block of that name."""
        return name in self.blocks

    def __getitem__(self, name: str) -> BlockArray | None:
        """One block, read as a numpy array is; None where the target does not reach the parameter. KeyError: no such
        block."""
        if name not in self.blocks:
            raise KeyError(f"no block '{name}'; there are {', '.join(self.blocks)}")
        block = self.blocks[name]
        return BlockArray(self._source, block, self._rows, self.shape) if block.connected else None

    def rows(self, begin: int = 0, end: int | None = None) -> Rows:
        """Rows [begin, end) of all blocks, computed now and held in memory: (end - begin) * row_nbytes bytes.

        Raises:
            RowsOutOfRangeError: not 0 <= begin <= end <= len(self).
        """
        end = len(self) if end is None else end
        if not 0 <= begin <= end <= len(self):
            raise RowsOutOfRangeError(f"rows {begin}:{end} of a Jacobian with {len(self)} rows")
        reporter = Reporter(self._source.progress, end - begin, self.row_nbytes)
        try:
            return self._fetch(begin, end, reporter)
        finally:
            reporter.close()

    def batches(self, memory_limit: int | str | None = None) -> Iterator[tuple[range, Rows]]:
        """All rows, in order, as (range of rows, Rows). While one batch is used, the next one is computed; both
        together stay within `memory_limit` (bytes or "256MiB"; default: that of jacobian()), but a batch has a row."""
        limit = self.memory_limit if memory_limit is None else parse_size(memory_limit, "memory_limit")
        batch = batch_rows(self.layout, limit)
        cuts = [(begin, min(begin + batch, len(self))) for begin in range(0, len(self), batch)]
        for rows in self.in_batches(cuts):
            yield range(rows.begin, rows.end), rows

    def in_batches(self, ranges: Sequence[Range], rows_before: int = 0) -> Iterator[Rows]:
        """Rows of one range after another; while one is used, the next one is computed. `rows_before`: rows that the
        caller has already, for the progress bar."""
        reporter = Reporter(self.progress, rows_before + sum(e - b for b, e in ranges), self.row_nbytes, rows_before)
        cancel = Cancellation()
        with ThreadPoolExecutor(1, thread_name_prefix="jacserve") as pool:
            ahead: deque[Future[Rows]] = deque()
            try:
                for begin, end in ranges:
                    ahead.append(pool.submit(self._fetch, begin, end, reporter, cancel))
                    if len(ahead) > 1:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                reporter.close()
                cancel.cancel()  # what is still on its way, when the caller leaves early

    def to_npy(self, path: Path, *, streams: int = 2, overwrite: bool = False) -> None:
        """Writes a folder: one .npy per block, value.npy, and index.json, as `jacserve jacobian --out` does. A run that
        was interrupted is continued: only missing rows are computed. Files get their names when complete. Where this
        very result is there already, nothing is done.

        Args:
            path: of the folder.
            streams: row ranges fetched side by side.
            overwrite: compute again what is there, and replace another request's result once this one is complete.

        Raises:
            ResourceError: no room. PreconditionError: another run writes there; the folder holds another request's
                result or rows and overwrite is not set; or a file that no result wrote would be replaced.
        """
        from jacserve.writers.npy import write_npy

        write_npy(self, path, streams, overwrite)

    def to_safetensors(self, path: Path, *, streams: int = 2, overwrite: bool = False) -> None:
        """Writes one .safetensors file: each connected block under its name, the target as "target.value". It grows
        as PATH.part beside its record PATH.part.json, from which an interrupted run is continued. Where this very
        result is there already, nothing is done.

        Args and errors: as of to_npy().
        """
        from jacserve.writers.safetensors import write_safetensors

        write_safetensors(self, path, streams, overwrite)

    def to_zarr(self, path: Path, *, chunk_size: int | str = "16MiB", overwrite: bool = False) -> None:
        """Writes a zarr group: one array per connected block, and "target.value". It grows as PATH.part, from which an
        interrupted run is continued where memory_limit and chunk_size are as they were. Needs the zarr package. Where
        this very result is there already, nothing is done.

        Args:
            path: of the folder.
            chunk_size: most bytes of a chunk, unless one row is larger.
            overwrite: as of to_npy(), whose errors these are too.
        """
        from jacserve.writers.zarr import write_zarr

        write_zarr(self, path, parse_size(chunk_size, "chunk_size"), overwrite)

    def __repr__(self) -> str:
        columns = sum(int(np.prod(b.parameter_shape, dtype=np.int64)) for b in self.blocks.values() if b.connected)
        lines = [
            f"<jacserve.Jacobian of a target {self.target_shape}: {len(self):,} rows x {columns:,} columns, "
            f"{size_text(self.nbytes)} of {self.dtype}"
        ]
        names = [*self.blocks, "block"]
        shapes = [str(block.shape) for block in self.blocks.values()] + ["shape"]
        wide, wider = max(map(len, names)), max(map(len, shapes))
        lines.append(f"  {'block':{wide}}  {'shape':{wider}}  size")
        for block, shape in zip(self.blocks.values(), shapes, strict=False):
            size = size_text(block.nbytes) if block.connected else "unconnected"
            lines.append(f"  {block.name:{wide}}  {shape:{wider}}  {size}")
        return "\n".join(lines) + ">"

    @property
    def is_in_memory(self) -> bool:
        """All of it is so small that it came with its header."""
        return self._source.whole is not None

    def whole_rows(
        self, begin: int, end: int, reporter: Reporter, cancel: Cancellation | None = None
    ) -> list[NDArray[Any] | None]:
        """Rows [begin, end): one array per block, in the blocks' order."""
        first = self._rows[0]
        return self._source.whole_rows(first + begin, first + end, first, reporter.rows_done, cancel)

    def _fetch(self, begin: int, end: int, reporter: Reporter, cancel: Cancellation | None = None) -> Rows:
        named = dict(zip(self.blocks, self.whole_rows(begin, end, reporter, cancel), strict=True))
        return Rows(begin, end, named, self._functional.unflatten)


def batch_rows(layout: Layout, memory_limit: int) -> int:
    """Rows of one of the two batches that are held at a time; whole tiles where they fit. At least 1."""
    rows = max(1, memory_limit // 2 // max(1, layout.row_nbytes))
    return rows - rows % layout.row_tile if rows >= layout.row_tile else rows
