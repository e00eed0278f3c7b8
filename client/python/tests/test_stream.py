"""Streams are checked message by message; what is damaged is never handed on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import events
from jacserve import header
from jacserve.errors import DataLossError, PreconditionError, VersionMismatchError
from jacserve.header import HeaderChecker
from jacserve.layout import layout_of
from jacserve.ranges import RangeSet, split_evenly
from jacserve.rows import MemorySink
from jacserve.stream import StreamChecker
from jacserve.wire.events import Chunk, parse_event
from jacserve.wire.messages import JacobianEvent

ALL = [(0, events.ROWS)]
GOOD_ROWS = [events.chunk(0, 2), events.chunk(2, 2), events.rows_done(0, 4)]
LAYOUT = layout_of(JacobianEvent.FromString(events.header()).header)


def run(messages: list[bytes], wanted: Any = ALL) -> tuple[StreamChecker, MemorySink]:
    sink = MemorySink(LAYOUT, wanted)
    checker = StreamChecker(wanted, LAYOUT, sink)
    from jacserve.request import Prepared
    from jacserve.wire.messages import JacobianSpec

    checker.request_for(Prepared(JacobianSpec(), {}))
    checker.start_stream()
    for message in messages:
        checker.on_message(message)
    checker.finish_stream()
    return checker, sink


@pytest.mark.parametrize(
    "rows",
    [
        GOOD_ROWS,
        [events.chunk(2, 2), events.chunk(0, 2), events.rows_done(2, 2), events.rows_done(0, 2)],
        [events.chunk(0, 4, 0, events.WHOLE.tobytes()[:20]), events.chunk(0, 4, 20), events.rows_done(0, 4)],
        [*GOOD_ROWS[:2], *GOOD_ROWS],
    ],
    ids=["in order", "out of order", "cut within a row", "twice"],
)
def test_rows_arrive_whatever_their_pieces(rows: list[bytes]) -> None:
    checker, sink = run([events.header(), events.value(), *rows, events.summary()])
    assert checker.complete
    assert np.array_equal(sink.arrays[0], events.WHOLE)
    assert sink.arrays[1] is None


def test_several_ranges_lie_one_behind_the_other() -> None:
    rows = [events.chunk(3, 1), events.chunk(1, 1), events.rows_done(3, 1), events.rows_done(1, 1)]
    _, sink = run([events.header(), events.value(), *rows, events.summary()], [(1, 2), (3, 4)])
    assert np.array_equal(sink.arrays[0], events.WHOLE[[1, 3]])


DAMAGED = {
    "no header": [events.value()],
    "a chunk before the header": [events.chunk(0, 1)],
    "two headers": [events.header(), events.header()],
    "no summary": [events.header(), events.value(), *GOOD_ROWS],
    "something behind the summary": [events.header(), events.value(), *GOOD_ROWS, events.summary(), events.value()],
    "a chunk behind the summary": [events.header(), events.value(), *GOOD_ROWS, events.summary(), events.chunk(0, 1)],
    "a value outside": [events.header(), events.value(1)],
    "a part of an element": [events.header(), events.value(0, b"123")],
    "a value with a gap": [events.header(), events.value(0, b"1234"), *GOOD_ROWS, events.summary()],
    "an unknown block": [events.header(), events.chunk(0, 1, block=2)],
    "an unconnected block": [events.header(), events.chunk(0, 1, block=1)],
    "rows outside": [events.header(), events.chunk(4, 1, data=b"")],
    "more than its rows": [events.header(), events.chunk(0, 1, 4, bytes(12))],
    "half a number": [events.header(), events.chunk(0, 1, 2)],
    "a wrong checksum": [events.header(), events.chunk(0, 1, checksum=1)],
    "rows done with a gap": [events.header(), events.chunk(0, 1), events.chunk(2, 2), events.rows_done(0, 4)],
    "rows done outside": [events.header(), events.value(), *GOOD_ROWS, events.rows_done(3, 2)],
    "rows missing": [events.header(), events.value(), events.chunk(0, 1), events.rows_done(0, 1), events.summary()],
    "cut short": [events.header(), events.chunk(0, 1)[:-1]],
    "cut in its fields": [events.header(), events.chunk(0, 1)[:5]],
    "no message": [b"\xff"],
    "a chunk too large": [events.header(), events.chunk(0, 1, 0, bytes((2 << 20) + 4))],
    "names twice": [events.header(name="w")],
    "no floats": [events.header(dtype=3)],
    "an impossible shape": [events.header(columns=1 << 61)],
    "a negative shape": [events.header(columns=-1)],
}


@pytest.mark.parametrize("messages", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_data_loss(messages: list[bytes]) -> None:
    with pytest.raises(DataLossError):
        run(messages)


def test_another_layout_than_before_is_a_precondition() -> None:
    with pytest.raises(PreconditionError, match="start again"):
        run([events.header(columns=4)])


def test_an_unknown_encoding_is_a_version_mismatch() -> None:
    with pytest.raises(VersionMismatchError):
        run([events.header(encoding=9)])


def test_a_chunks_data_is_not_copied() -> None:
    message = events.chunk(0, 4)
    chunk = parse_event(message)
    assert isinstance(chunk, Chunk)
    assert chunk.data.obj is message
    assert chunk.data == events.WHOLE.tobytes()


def test_fields_of_later_versions_are_passed_over() -> None:
    known = events.chunk(0, 1)
    unknown = (
        bytes([9 << 3 | 0, 5]) + bytes([10 << 3 | 1]) + bytes(8) + bytes([11 << 3 | 2, 1, 0, 12 << 3 | 5]) + bytes(4)
    )
    body = unknown + known[2:]
    chunk = parse_event(known[:1] + bytes([len(body)]) + body)
    assert isinstance(chunk, Chunk)
    assert (chunk.row_begin, chunk.row_count) == (0, 1)
    assert run([events.header(), events.value(), b"", *GOOD_ROWS, events.summary()])[0].complete


def test_more_than_a_thousand_ranges_take_several_requests() -> None:
    from jacserve.request import Prepared
    from jacserve.wire.messages import JacobianSpec

    layout = layout_of(JacobianEvent.FromString(events.header(rows=5000)).header)
    wanted = [(row, row + 1) for row in range(0, 5000, 2)]
    checker = StreamChecker(wanted, layout, MemorySink(layout, wanted))
    request = checker.request_for(Prepared(JacobianSpec(), {}))
    assert 1 + len(request.more_rows) == 1000
    assert (request.rows.begin, request.rows.count) == (0, 1)


@pytest.mark.parametrize("seed", range(20))
def test_range_sets_agree_with_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranges, numbers = RangeSet(), set()
    for _ in range(40):
        begin, size = int(rng.integers(0, 60)), int(rng.integers(0, 8))
        ranges.add(begin, begin + size)
        numbers |= set(range(begin, begin + size))
        assert len(ranges) == len(numbers)
        low, high = sorted(rng.integers(0, 70, 2).tolist())
        missing = [number for first, last in ranges.missing_from(low, high) for number in range(first, last)]
        assert missing == sorted(set(range(low, high)) - numbers)
        assert ranges.contains(low, high) == (not missing)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("unit", [1, 4, 32])
@pytest.mark.parametrize("ranges", [[], [(0, 1)], [(3, 100)], [(0, 10), (20, 21), (40, 95)]])
def test_ranges_are_dealt_out_once_each(ranges: Any, unit: int, parts: int) -> None:
    dealt = split_evenly(ranges, parts, unit)
    assert len(dealt) <= parts
    flat = [number for part in dealt for begin, end in part for number in range(begin, end)]
    assert flat == [number for begin, end in ranges for number in range(begin, end)]
    inner = [part[-1][1] for part in dealt[:-1]]
    assert all(cut % unit == 0 or cut in {end for _, end in ranges} for cut in inner)


@pytest.fixture
def prepared() -> Any:
    from jacserve.request import Request, prepare

    return prepare(Request(b"graph", {"x": np.zeros((2, 3), np.float32)}))


def heads(prepared: Any, messages: list[bytes], rows: Any = None) -> HeaderChecker:
    checker = HeaderChecker(prepared, rows)
    checker.request_for(prepared)
    checker.start_stream()
    for message in messages:
        checker.on_message(message)
        if checker.enough:
            return checker
    checker.finish_stream()
    return checker


def test_a_small_jacobian_comes_with_its_header(prepared: Any) -> None:
    assert not HeaderChecker(prepared, None).request_for(prepared).HasField("rows")
    checker = heads(prepared, [events.header(), events.value(), *GOOD_ROWS, events.summary()])
    assert checker.complete
    assert checker.whole is not None
    assert np.array_equal(checker.whole.arrays[0], events.WHOLE)
    assert bytes(checker.value) == events.VALUE.tobytes()


def test_of_a_small_jacobian_only_the_rows_wanted_come(prepared: Any) -> None:
    request = HeaderChecker(prepared, (1, 3)).request_for(prepared)
    assert (request.rows.begin, request.rows.count) == (1, 2)
    checker = heads(
        prepared,
        [events.header(), events.value(), events.chunk(1, 2), events.rows_done(1, 2), events.summary()],
        (1, 3),
    )
    assert checker.whole is not None
    assert np.array_equal(checker.whole.arrays[0], events.WHOLE[1:3])


def test_a_jacobian_that_proves_large_is_left_after_its_value(prepared: Any) -> None:
    large = 1 << 20
    value = events.value(0, bytes(4 * large))
    checker = heads(prepared, [events.header(rows=large), events.chunk(0, 1), events.rows_done(0, 1), value, b"\xff"])
    assert checker.complete
    assert checker.whole is None
    assert len(checker.value) == 4 * large


def test_a_large_request_asks_for_no_rows(prepared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "SMALL_NBYTES", 20)
    request = HeaderChecker(prepared, None).request_for(prepared)
    assert request.HasField("rows")
    assert request.rows.count == 0
