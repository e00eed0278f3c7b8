"""How often and how long to wait before a call is made again. In: how often it failed so far, and why. Out: when to
give up, and a word to whoever waits, by the logger `jacserve`."""

from __future__ import annotations

import logging
from dataclasses import dataclass

_FAILURES_TOLD_OF = 2  # after the first, all may be well at once


@dataclass
class Retry:
    """Counts failures since the last progress."""

    tries_without_progress: int = 10
    first_wait_seconds: float = 0.2  # doubles each time
    longest_wait_seconds: float = 5.0
    failures: int = 0

    def progressed(self) -> None:
        self.failures = 0

    def next_wait(self, problem: str) -> float | None:
        """Seconds to wait before the next try; None: give up."""
        self.failures += 1
        if self.failures == _FAILURES_TOLD_OF:
            logging.getLogger("jacserve").warning("waiting for the server: %s", problem)
        if self.failures >= self.tries_without_progress:
            return None
        return float(min(self.first_wait_seconds * 2 ** (self.failures - 1), self.longest_wait_seconds))
