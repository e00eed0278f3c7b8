"""What an earlier run left behind: its result, or which rows of which request are safely in the part files.

In: rows as they become durable. Out: the record, written whole or not at all, in the command line's format; and whether
what lies there may be continued or replaced.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jacserve.errors import PreconditionError
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


def read_done(path: Path, expected: Record, folder: Path, overwrite: bool) -> RangeSet:
    """Rows that an earlier run of the same request left; empty when there is no record or a part file is not as it
    says: then all is done anew. PreconditionError: rows of another request, which are not to be overwritten."""
    try:
        found = json.loads(path.read_text())
        begin, count = found["rows"]
        done = RangeSet((int(first), int(first) + int(size)) for first, size in found["done"])
        known, fingerprint, files = found["format"] == _FORMAT, found["fingerprint"], found["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return RangeSet()
    if known and fingerprint != expected.fingerprint and len(done) and not overwrite:
        raise PreconditionError(
            f"{folder}: holds {len(done)} of {count} rows of another request that was interrupted",
            "finish that one, choose another place, or pass overwrite=True",
        )
    same = known and fingerprint == expected.fingerprint and (begin, begin + count) == expected.rows
    if not same or files != dict(expected.files) or not _are_there(folder, expected.files):
        return RangeSet()
    outside = any(first < expected.rows[0] or last > expected.rows[1] for first, last in done)
    return RangeSet() if outside else done


def _are_there(folder: Path, files: Mapping[str, int]) -> bool:
    try:
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except OSError:
        return False


def is_finished(path: Path, found: Mapping[str, Any] | None, fingerprint: str, overwrite: bool) -> bool:
    """Whether the result that lies at `path` is this request's, and not to be computed again.

    found: what it says of itself, its `fingerprint` and `row_count`; None: it is no result. PreconditionError: it is
    none, or another request's and not to be overwritten.
    """
    if found is None or "fingerprint" not in found:
        raise PreconditionError(
            f"{path}: is no result of jacserve and would be replaced", "move it, or choose another place"
        )
    if overwrite:
        return False
    if found["fingerprint"] != fingerprint:
        raise PreconditionError(
            f"{path}: holds the result of another request ({found.get('row_count', '?')} rows)",
            "choose another place, or pass overwrite=True to replace it once this one is complete",
        )
    return True


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
