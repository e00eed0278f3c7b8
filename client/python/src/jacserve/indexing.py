"""Basic numpy indexing of an array that is not there: which rows are needed, and what to take of each.

In: a key as of array[key], the array's shape. Out: a plan; rows, in the order of the result, and the key for a row.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jacserve.layout import Shape


@dataclass(frozen=True)
class Plan:
    """result[...] = array_of_rows[:, *row_key] reshaped to `shape`, where array_of_rows[k] is row `rows[k]`."""

    rows: NDArray[np.int64]  # flat, in the order of the result
    row_key: tuple[Any, ...]  # for the parameter's axes
    shape: Shape  # of the result


def _checked(entry: Any) -> Any:
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    try:
        if not isinstance(entry, (bool, np.bool_)):
            return operator.index(entry)
    except TypeError:
        pass
    raise IndexError("only integers, slices (:), ellipsis (...) and None (numpy.newaxis) are valid indices")


def _expand(key: Any, ndim: int) -> list[Any]:
    """One entry per axis and per None, without an Ellipsis."""
    entries = [_checked(entry) for entry in (key if isinstance(key, tuple) else (key,))]
    dots = [at for at, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    at = dots[0] if dots else len(entries)
    entries[at : at + len(dots)] = [slice(None)] * (ndim - used)
    return entries


def plan(key: Any, target_shape: Shape, parameter_shape: Shape) -> Plan:
    """IndexError: not basic indexing, too many axes, or out of bounds, in numpy's words."""
    ndim = len(target_shape) + len(parameter_shape)
    entries = _expand(key, ndim)
    cut = axes = 0
    while cut < len(entries) and axes < len(target_shape):
        axes += entries[cut] is not None
        cut += 1
    target_key, row_key = tuple(entries[:cut]), tuple(entries[cut:])
    numbers = np.arange(math.prod(target_shape), dtype=np.int64).reshape(target_shape)
    rows = numbers[target_key] if target_key else numbers
    # The shape alone, of an array that takes no memory.
    row_shape = np.broadcast_to(np.int8(0), parameter_shape)[row_key].shape
    return Plan(np.asarray(rows).reshape(-1), row_key, np.shape(rows) + row_shape)


def ranges_of(rows: NDArray[np.int64], unit: int, limits: tuple[int, int]) -> list[tuple[int, int]]:
    """Sorted disjoint ranges that cover `rows`, widened to multiples of `unit` within `limits`."""
    if rows.size == 0:
        return []
    units = np.unique(rows // unit)
    runs = np.split(units, np.flatnonzero(np.diff(units) > 1) + 1)
    return [(max(int(run[0]) * unit, limits[0]), min(int(run[-1] + 1) * unit, limits[1])) for run in runs]
