"""Rows of a Jacobian on demand, the last ones kept.

In: row numbers of the target. Out: arrays; what was asked for lately comes from memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jacserve.indexing import ranges_of
from jacserve.layout import Block, Layout
from jacserve.progress import ProgressSetting, Reporter
from jacserve.ranges import Range
from jacserve.receive import Cancellation, Connection, receive_header, receive_rows
from jacserve.request import Prepared
from jacserve.rows import MemorySink

_UNIT_BYTES = 32 << 20  # no more than this is fetched beyond what was asked for


class RowSource:
    """One request at one server. Row numbers are the target's own."""

    def __init__(
        self,
        server: Connection,
        prepared: Prepared,
        layout: Layout,
        memory_limit: int,
        progress: ProgressSetting,
        whole: list[NDArray[Any] | None] | None = None,
    ) -> None:
        """`whole`: all rows, one array per block, where they are here already."""
        self.server = server
        self.prepared = prepared
        self.layout = layout
        self.memory_limit = memory_limit
        self.progress = progress
        self.whole = whole
        self._narrowed: dict[str, tuple[Prepared, Layout]] = {}
        self._kept: OrderedDict[tuple[str, int], NDArray[Any]] = OrderedDict()
        self._kept_nbytes = 0
        self._lock = threading.RLock()

    def whole_rows(
        self,
        begin: int,
        end: int,
        first: int,
        report: Callable[[int, int], None],
        cancel: Cancellation | None = None,
    ) -> list[NDArray[Any] | None]:
        """One array per block, shape (end - begin,) + parameter shape; None: unconnected. `first`: of the rows that
        were asked for."""
        if self.whole is not None:
            report(begin, end)
            return [None if array is None else array[begin - first : end - first].copy() for array in self.whole]
        rows = [(begin, end)] if begin < end else []
        sink = MemorySink(self.layout, rows, report)
        receive_rows(self.server, self.prepared, self.layout, rows, sink, cancel=cancel)
        return sink.arrays

    def take(self, block: Block, rows: NDArray[np.int64], key: tuple[Any, ...], limits: Range) -> NDArray[Any]:
        """array_of_rows[:, *key] of one connected block, array_of_rows[k] being row rows[k]; nothing beyond `limits` is
        fetched. Besides the result, no more than the memory limit is held."""
        if self.whole is not None:
            array = self.whole[[other.name for other in self.layout.blocks].index(block.name)]
            assert array is not None
            part: NDArray[Any] = array[(slice(None), *key)][rows - limits[0]]
            return part
        row_shape = np.broadcast_to(np.int8(0), block.parameter_shape)[key].shape
        result = np.empty((len(rows), *row_shape), block.dtype)
        unit = self._unit(block)
        order = np.argsort(rows // unit, kind="stable")  # unit after unit
        units, firsts = np.unique(rows[order] // unit, return_index=True)
        places = dict(zip(units.tolist(), np.split(order, firsts[1:]), strict=True)) if units.size else {}
        reporter = Reporter(self.progress, len(units) * unit, block.row_nbytes)
        with self._lock:
            try:
                for number, array in self._units(block, unit, units, limits, reporter):
                    here = places[number]
                    begin = max(number * unit, limits[0])
                    result[here] = array[(slice(None), *key)][rows[here] - begin]
            finally:
                reporter.close()
        return result

    def _unit(self, block: Block) -> int:
        """Rows fetched together: those that the server computes together, or fewer where these are large."""
        unit = self.layout.row_tile
        while unit > 1 and unit * block.row_nbytes > _UNIT_BYTES:
            unit = (unit + 1) // 2
        return unit

    def _units(
        self, block: Block, unit: int, units: NDArray[np.int64], limits: Range, reporter: Reporter
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """(number, its rows) of each unit, in any order."""
        absent = []
        for number in units.tolist():
            kept = self._kept.get((block.name, number))
            if kept is None:
                absent.append(number)
                continue
            self._kept.move_to_end((block.name, number))
            reporter.rows_done(0, unit)
            yield number, kept
        per_fetch = max(1, self.memory_limit // 2 // max(1, unit * block.row_nbytes))
        for at in range(0, len(absent), per_fetch):
            for number, array in self._fetch(block, unit, absent[at : at + per_fetch], limits, reporter):
                self._keep((block.name, number), array)
                yield number, array

    def _fetch(
        self, block: Block, unit: int, numbers: list[int], limits: Range, reporter: Reporter
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        wanted = ranges_of(np.asarray(numbers) * unit, unit, limits)
        prepared, layout = self._narrow(block)
        sink = MemorySink(layout, wanted, reporter.rows_done)
        receive_rows(self.server, prepared, layout, wanted, sink)
        names = [other.name for other in layout.blocks]
        array = sink.arrays[names.index(block.name)]
        assert array is not None
        at = 0
        for number in numbers:
            size = min((number + 1) * unit, limits[1]) - max(number * unit, limits[0])
            yield number, array[at : at + size]
            at += size

    def _narrow(self, block: Block) -> tuple[Prepared, Layout]:
        """The request for one block alone, so that no other columns travel."""
        if len(self.layout.blocks) == 1:
            return self.prepared, self.layout
        if block.name not in self._narrowed:
            prepared = self.prepared.narrowed_to(block.name)
            layout = receive_header(self.server, prepared).layout
            assert layout is not None
            self._narrowed[block.name] = prepared, layout
        return self._narrowed[block.name]

    def _keep(self, key: tuple[str, int], array: NDArray[Any]) -> None:
        if array.nbytes > self.memory_limit // 2:
            return
        self._kept[key] = array.copy()  # on its own: a view would hold all that was fetched with it
        self._kept_nbytes += array.nbytes
        while self._kept_nbytes > self.memory_limit // 2:
            self._kept_nbytes -= self._kept.popitem(last=False)[1].nbytes
