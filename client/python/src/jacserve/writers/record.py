"""What an interrupted run left behind: which rows of which request are safely in the part files.

In: rows as they become durable. Out: the record, written whole or not at all; in the command line's format.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jacserve.ranges import Range, RangeSet
from jacserve.writers.part_file import PartFile, write_atomically

_FORMAT = 1
# Rows are recorded when the first are done, then ever more rarely: each time costs what came since, made durable.
_FIRST_SAVE_SECONDS, _SAVE_SECONDS = 0.25, 5.0


@dataclass
class Record:
    """Rows [begin, end) wanted, those done, and the part files with their sizes."""

    fingerprint: str
    rows: Range
    files: Mapping[str, int]
    done: RangeSet = field(default_factory=RangeSet)

    def write(self, path: Path) -> None:
        record = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "rows": [self.rows[0], self.rows[1] - self.rows[0]],
            "done": [[begin, end - begin] for begin, end in self.done],
            "files": dict(self.files),
        }
        write_atomically(path, json.dumps(record).encode())


def read_done(path: Path, expected: Record, folder: Path) -> RangeSet:
    """Rows that an earlier run of the same request left; empty when there is no record, or of another request, or when
    a part file is not as it says: then all is done anew."""
    try:
        found = json.loads(path.read_text())
        begin, count = found["rows"]
        same = found["format"] == _FORMAT and found["fingerprint"] == expected.fingerprint
        done = RangeSet((int(first), int(first) + int(size)) for first, size in found["done"])
        if not same or (begin, begin + count) != expected.rows or found["files"] != dict(expected.files):
            return RangeSet()
        if any((folder / name).stat().st_size != size for name, size in expected.files.items()):
            return RangeSet()
    except (OSError, ValueError, KeyError, TypeError):
        return RangeSet()
    outside = any(first < expected.rows[0] or last > expected.rows[1] for first, last in done)
    return RangeSet() if outside else done


class RecordingSink:
    """Writes pieces into part files and keeps the record of rows that are durable in all of them."""

    def __init__(
        self, record: Record, record_path: Path, parts: Sequence[PartFile | None], offsets: Sequence[int]
    ) -> None:
        """parts[k], offsets[k]: the file of block k, and where in its data the target's row 0 would lie, in bytes."""
        self._record = record
        self._path = record_path
        self._parts = parts
        self._offsets = offsets
        self._lock = threading.Lock()
        self._save_lock = threading.Lock()
        self._save_at = 0.0
        self._save_after = _FIRST_SAVE_SECONDS
        self.report: Callable[[int, int], None] | None = None

    def on_chunk(self, block: int, byte_begin: int, data: memoryview) -> None:
        part = self._parts[block]
        assert part is not None
        part.write(byte_begin + self._offsets[block], data)

    def on_rows_done(self, begin: int, end: int) -> None:
        with self._lock:
            self._record.done.add(begin, end)
        if self.report is not None:
            self.report(begin, end)
        if time.monotonic() >= self._save_at and self._save_lock.acquire(blocking=False):
            try:
                self._save()
                self._save_at = time.monotonic() + self._save_after
                self._save_after = min(2 * self._save_after, _SAVE_SECONDS)
            finally:
                self._save_lock.release()

    def save(self) -> None:
        """Makes the rows done durable and records them."""
        with self._save_lock:
            self._save()

    def _save(self) -> None:
        with self._lock:  # rows that are done by now are written by now
            done = RangeSet(self._record.done)
        for part in dict.fromkeys(self._parts):
            if part is not None:
                part.sync()
        Record(self._record.fingerprint, self._record.rows, self._record.files, done).write(self._path)
