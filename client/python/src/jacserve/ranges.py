"""A set of whole numbers as disjoint ranges: rows that are done, bytes that have arrived.

In: half-open ranges. Out: what is in the set, what is missing from a range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]  # half-open: begin, end


class RangeSet:
    """Sorted, disjoint, non-adjacent half-open ranges."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, end in ranges:
            self.add(begin, end)

    def __iter__(self) -> Iterator[Range]:
        return iter(zip(self._begins, self._ends, strict=True))

    def __len__(self) -> int:
        """How many numbers are in the set."""
        return sum(self._ends) - sum(self._begins)

    def add(self, begin: int, end: int) -> None:
        if begin >= end:
            return
        first = bisect_left(self._ends, begin)  # the first range that touches [begin, end)
        last = bisect_right(self._begins, end)  # behind the last one
        if first < last:
            begin = min(begin, self._begins[first])
            end = max(end, self._ends[last - 1])
        self._begins[first:last] = [begin]
        self._ends[first:last] = [end]

    def contains(self, begin: int, end: int) -> bool:
        """Whether all of [begin, end) is in the set."""
        if begin >= end:
            return True
        at = bisect_right(self._begins, begin) - 1
        return at >= 0 and self._ends[at] >= end

    def missing_from(self, begin: int, end: int) -> list[Range]:
        """The parts of [begin, end) that are not in the set, in order."""
        gaps = []
        for have_begin, have_end in self:
            if have_end <= begin:
                continue
            if have_begin >= end:
                break
            if have_begin > begin:
                gaps.append((begin, have_begin))
            begin = max(begin, have_end)
        if begin < end:
            gaps.append((begin, end))
        return gaps


def split_evenly(ranges: list[Range], parts: int, unit: int) -> list[list[Range]]:
    """Deals out ranges to at most `parts` lists of about as many numbers; cuts fall on multiples of `unit`."""
    total = sum(end - begin for begin, end in ranges)
    share = max(unit, -(-total // max(parts, 1)))
    result: list[list[Range]] = [[]]
    room = share
    for begin, end in ranges:
        while begin < end:
            if room <= 0 and len(result) < parts:
                result.append([])
                room = share
            cut = end if len(result) == parts else min(end, -(-(begin + max(room, 1)) // unit) * unit)
            result[-1].append((begin, cut))
            room -= cut - begin
            begin = cut
    return [part for part in result if part]
