"""Processes as the system shows them.

In: process ids. Out: whether they live, their children, their memory.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, seconds: float = 60) -> T:
    """The first true value of condition()."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def descendants(pid: int) -> list[int]:
    """Living children, and theirs."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except FileNotFoundError:
            continue
    found = [child for child in found if alive(child)]
    return found + [deeper for child in found for deeper in descendants(child)]


def rss_anon(pid: int) -> int:
    """Bytes; 0 when the process has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0
    match = re.search(r"RssAnon:\s+(\d+) kB", text)
    return int(match[1]) * 1024 if match else 0


def environment() -> dict[str, str]:
    """For a child that imports the package from where this process does."""
    import jacserve

    source = str(Path(jacserve.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(Path(__file__).parent)])}
