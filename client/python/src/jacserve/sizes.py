"""Sizes in bytes as people write and read them: "256MiB" in, "14.3 GB" or "13.31 GiB" out."""

from __future__ import annotations

import re

from jacserve.errors import InvalidRequestError

_UNITS = {"": 1, "b": 1}
_UNITS.update({f"{letter}ib": 1024 ** (power + 1) for power, letter in enumerate("kmgt")})
_UNITS.update({f"{letter}b": 1000 ** (power + 1) for power, letter in enumerate("kmgt")})


def parse_size(size: int | str, what: str) -> int:
    """Bytes of 268435456, "256MiB" or "1.5GB". InvalidRequestError: not a positive size; `what` is its name there."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([a-zA-Z]*)\s*", size)
        if match is None or match[2].lower() not in _UNITS:
            raise InvalidRequestError(f"{what}={size!r} is not a size; write it as '256MiB' or '2GB'")
        size = int(float(match[1]) * _UNITS[match[2].lower()])
    if size <= 0:
        raise InvalidRequestError(f"{what} must be more than 0 bytes")
    return int(size)


def size_text(nbytes: int) -> str:
    """A size with three significant digits: '13.3 GiB', '391 KiB', '12 B'."""
    for power, letter in ((3, "G"), (2, "M"), (1, "K")):
        if nbytes >= 1024**power:
            return f"{nbytes / 1024**power:.3g} {letter}iB"
    return f"{nbytes} B"
