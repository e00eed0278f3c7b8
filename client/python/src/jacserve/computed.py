"""What servers said of the rows that they computed for one request, to be looked at afterwards.

In: summaries of streams. Out: which worker computed which rows when, and what rounding lost.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from jacserve.ranges import Range

_MOST_RUNS = 1 << 16


@dataclass(frozen=True)
class ShardRun:
    """A worker's turn on a shard.

    Attributes:
        worker: its id.
        rows: [begin, end) of the target; None: it compiled the request and computed the value.
        begin, end: seconds since the first of this Jacobian's streams was asked for.
        completed: False: the worker was lost, or gave the shard back; another turn took what was missing.
    """

    worker: str
    rows: Range | None
    begin: float
    end: float
    completed: bool


class Computed:
    """Of all streams that ended with a summary; rows that were fetched twice count twice. Thread-safe.

    Attributes:
        underflows: numbers between operators that fp16 or bf16 made zero.
        overflows: those that it made infinite.
    """

    def __init__(self) -> None:
        self.underflows = 0
        self.overflows = 0
        self._runs: list[ShardRun] = []
        self._started: float | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        runs = self.runs
        workers = sorted({run.worker for run in runs})
        return (
            f"<jacserve.Computed: {len(runs)} turns of {len(workers)} workers ({', '.join(workers)}), "
            f"{self.underflows} underflows, {self.overflows} overflows>"
        )

    @property
    def runs(self) -> list[ShardRun]:
        """In the order in which they were reported; of very many the first 65,536."""
        with self._lock:
            return list(self._runs)

    def add(self, summary: Any, started: float) -> None:
        """A stream's JacobianSummary, and the time.monotonic() at which the stream was asked for."""
        with self._lock:
            if self._started is None:
                self._started = started
            late = started - self._started
            self.underflows += summary.underflows
            self.overflows += summary.overflows
            for run in summary.shard_runs[: _MOST_RUNS - len(self._runs)]:
                rows = (run.rows.begin, run.rows.begin + run.rows.count) if run.HasField("rows") else None
                times = late + run.begin_seconds, late + run.end_seconds
                self._runs.append(ShardRun(run.worker_id, rows, *times, run.completed))
