"""How far a computation is: rows, GB/s and time left; before that, what takes so long.

In: rows as they are done. Out: a tqdm bar where tqdm is installed, else a line on standard error; or calls to the
caller's own function; or nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

ProgressSetting = bool | Callable[[int, int, int], None] | None
_DELAY_SECONDS = 1.0  # nothing is shown of what is quicker
_REFRESH_SECONDS = 0.5


def _is_wanted(setting: bool | None) -> bool:
    if setting is not None:
        return setting
    environment = os.environ.get("JACSERVE_PROGRESS", "").lower()
    if environment:
        return environment not in ("0", "false", "no", "off")
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextlib.contextmanager
def step(what: str, setting: ProgressSetting) -> Iterator[None]:
    """Says on standard error what is being done when it takes longer than a moment, where a bar would be shown."""
    if callable(setting) or not _is_wanted(setting):
        yield
        return
    timer = threading.Timer(_DELAY_SECONDS, lambda: print(f"jacserve: {what} ...", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Reporter:
    """Counts rows; may be told from several threads."""

    def __init__(self, setting: ProgressSetting, rows_total: int, row_nbytes: int, rows_before: int = 0) -> None:
        self._total = rows_total
        self._row_nbytes = row_nbytes
        self._before = rows_before
        self._done = rows_before
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._call = setting if callable(setting) else None
        self._bar: Any = None
        if self._call is None and _is_wanted(setting if isinstance(setting, bool) else None):
            self._bar = _make_bar(rows_total, rows_before)

    def rows_done(self, begin: int, end: int) -> None:
        with self._lock:
            self._done = min(self._done + end - begin, self._total)
            if self._call is not None:
                self._call(self._done, self._total, self._done * self._row_nbytes)
            if self._bar is not None:
                seconds = max(time.monotonic() - self._start, 1e-9)
                rate = (self._done - self._before) * self._row_nbytes / seconds / 1e9
                self._bar.set_postfix_str(f"{rate:.2f} GB/s", refresh=False)
                self._bar.update(self._done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class _PlainBar:
    """What the reporter needs of tqdm, on one line of standard error."""

    def __init__(self, total: int, initial: int) -> None:
        self.n = initial
        self._total = total
        self._initial = initial
        self._postfix = ""
        self._start = self._shown = time.monotonic()
        self._visible = False

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        self._postfix = text

    def update(self, count: int) -> None:
        self.n += count
        now = time.monotonic()
        if now - self._start < _DELAY_SECONDS or now - self._shown < _REFRESH_SECONDS:
            return
        self._shown = now
        left = (now - self._start) / max(self.n - self._initial, 1) * (self._total - self.n)
        sys.stderr.write(f"\rrows {self.n}/{self._total}, {self._postfix}, {left:.0f} s left \x1b[K")
        sys.stderr.flush()
        self._visible = True

    def close(self) -> None:
        if self._visible:
            sys.stderr.write("\n")


def _make_bar(total: int, initial: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _PlainBar(total, initial)
    return tqdm(total=total, initial=initial, unit="row", unit_scale=True, delay=_DELAY_SECONDS, leave=False)
