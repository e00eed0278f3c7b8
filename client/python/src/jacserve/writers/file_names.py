"""File names for blocks.

In: block names as the graph spells them. Out: names that any file system takes, all different.

The same names as the command line's, so that one continues what the other began.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONGEST_STEM = 180


def safe_stem(name: str) -> str:
    """ASCII letters, digits, dots, dashes and underscores are kept; each other byte becomes an underscore."""
    kept = re.sub(rb"[^A-Za-z0-9._-]", b"_", name.encode()[:_LONGEST_STEM]).decode()
    return f"_{kept}" if not kept or kept[0] == "." else kept


def file_stems(block_names: Iterable[str]) -> list[str]:
    """One per block; those that differ by letter case alone, or are "value", get a number."""
    taken = {"value"}
    stems = []
    for name in block_names:
        stem = unique = safe_stem(name)
        number = 2
        while unique.lower() in taken:
            unique = f"{stem}-{number}"
            number += 1
        taken.add(unique.lower())
        stems.append(unique)
    return stems
