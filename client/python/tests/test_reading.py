"""A Jacobian reads like numpy: slicing against the full array, batches, row ranges, what it says about itself."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import jacserve
from golden import Case
from jacserve import header
from jacserve.indexing import plan, ranges_of
from processes import wait_until

KEYS: list[Any] = [
    0,
    -1,
    (0, 1),
    (0, 1, 2),
    (0, 1, 2, 3),
    (4, 2, 6, 3),
    slice(None),
    slice(1, 3),
    slice(None, None, -2),
    slice(3, 1),
    slice(-2, None),
    ...,
    (..., 0),
    (0, ..., slice(1, 3)),
    (slice(None), 1),
    (slice(None), slice(None, None, 2), 3),
    (slice(None, None, 3), slice(None, None, -1), slice(2, None), slice(None, None, -1)),
    None,
    (None, 0, None, 1, None),
    (..., None),
    (2, None, ...),
    np.int64(2),
    (),
]
WRONG = [5, -6, (0, 3), (0, 0, 0, 0, 0), (..., ...), 1.5, True, [0, 1], np.array([1, 2]), "x"]


@pytest.fixture(scope="module", params=["small", "large"])
def block(server: jacserve.Server, request: pytest.FixtureRequest) -> tuple[Any, np.ndarray]:
    """A block of shape (5, 3, 7, 4) whose rows came with their header, or come when asked for; and all of it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "large":
            patch.setattr(header, "SMALL_NBYTES", 0)
        jac = Case("mlp_tanh").jacobian(server)
    assert jac.is_in_memory == (request.param == "small")
    lazy = jac["0.weight"]
    return lazy, np.asarray(lazy)


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_slicing_is_numpys(block: tuple[Any, np.ndarray], key: Any) -> None:
    lazy, whole = block
    got, expected = lazy[key], whole[key]
    assert type(got) is type(expected)
    assert np.shape(got) == np.shape(expected)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("key", WRONG, ids=repr)
def test_what_is_no_basic_index_is_an_index_error(block: tuple[Any, np.ndarray], key: Any) -> None:
    with pytest.raises(IndexError):
        block[0][key]


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("cut", [0, 1, 2, 4])
def test_plans_agree_with_numpy_wherever_the_target_ends(cut: int, key: Any) -> None:
    shape = (5, 3, 7, 4)
    whole = np.arange(np.prod(shape)).reshape(shape)
    wanted = plan(key, shape[:cut], shape[cut:])
    rows = whole.reshape(-1, *shape[cut:])[wanted.rows]
    assert np.array_equal(rows[(slice(None), *wanted.row_key)].reshape(wanted.shape), whole[key])


@pytest.mark.parametrize(
    ("rows", "unit", "limits", "expected"),
    [
        ([], 4, (0, 10), []),
        ([0], 1, (0, 10), [(0, 1)]),
        ([9], 4, (0, 10), [(8, 10)]),
        ([5], 4, (5, 7), [(5, 7)]),
        ([8, 0, 9, 1], 2, (0, 10), [(0, 2), (8, 10)]),
        ([0, 2, 4], 2, (0, 5), [(0, 5)]),
    ],
)
def test_rows_are_fetched_in_whole_units_within_limits(rows: Any, unit: int, limits: Any, expected: Any) -> None:
    assert ranges_of(np.array(rows, np.int64), unit, limits) == expected


def test_block_says_what_it_is(block: tuple[Any, np.ndarray]) -> None:
    lazy, whole = block
    assert (lazy.shape, lazy.dtype, lazy.ndim, lazy.size, lazy.nbytes, len(lazy)) == (
        whole.shape,
        whole.dtype,
        whole.ndim,
        whole.size,
        whole.nbytes,
        len(whole),
    )
    assert "0.weight" in repr(lazy)
    assert np.asarray(lazy, np.float64).dtype == np.float64


def test_the_second_batchs_block_is_to_be_had_alone(server: jacserve.Server) -> None:
    case = Case("pairwise_keras_cosine")
    both, alone = (case.jacobian(server, wrt=[], wrt_inputs=[name]) for name in ("x", "second.x"))
    assert list(both.blocks) == ["x", "second.x"]
    assert list(alone.blocks) == ["second.x"]
    assert np.array_equal(alone["second.x"][2], both["second.x"][2])


@pytest.mark.usefixtures("nothing_is_small")
def test_rows_asked_for_again_come_from_memory(server: jacserve.Server, mlp: Case) -> None:
    jac = mlp.jacobian(server)
    block = jac["2.weight"]
    first = block[3, 1]
    opened: list[Any] = []
    open_stream = server.open_stream
    server.open_stream = lambda request: opened.append(request) or open_stream(request)  # type: ignore[method-assign]
    try:
        assert np.array_equal(block[3, 1], first)
        assert not opened
        jac["2.bias"][0]
        assert opened
        assert list(opened[-1].spec.wrt.parameters) == ["2.bias"]
    finally:
        del server.open_stream  # type: ignore[method-assign]


@pytest.mark.usefixtures("nothing_is_small")
def test_slices_larger_than_the_memory_limit_come_in_parts(server: jacserve.Server, long_jacobian: Any) -> None:
    small = jacserve.jacobian(
        long_jacobian.functional.graph,
        long_jacobian.functional.inputs,
        weights=long_jacobian.functional.weights,
        server=server,
        memory_limit=20_000,
    )
    assert small["0.weight"].nbytes > 200_000
    assert np.array_equal(np.asarray(small["0.weight"]), np.asarray(long_jacobian["0.weight"]))
    assert np.array_equal(small["0.weight"][::-7, 2, 3], np.asarray(long_jacobian["0.weight"])[::-7, 2, 3])


@pytest.mark.usefixtures("nothing_is_small")
@pytest.mark.parametrize("memory_limit", [1, 5_000, "100KB", "1GiB"])
def test_batches_cover_all_rows_in_order(long_jacobian: jacserve.Jacobian, memory_limit: int | str) -> None:
    if memory_limit == 1:  # a row at a time is slow; some will do
        long_jacobian = _rows_of(long_jacobian, (100, 110))
    whole = long_jacobian.rows()
    at = 0
    for rows, arrays in long_jacobian.batches(memory_limit):
        assert rows.start == at
        if isinstance(memory_limit, int) and len(rows) > 1:
            assert arrays.nbytes <= memory_limit // 2
        for name, array in arrays.items():
            assert np.array_equal(array, whole[name][rows.start : rows.stop])
        at = rows.stop
    assert at == len(long_jacobian)


def _rows_of(jac: jacserve.Jacobian, rows: Any) -> jacserve.Jacobian:
    functional = jac.functional
    return jacserve.jacobian(
        functional.graph, functional.inputs, weights=functional.weights, server=jac.server, rows=rows
    )


def test_an_iteration_that_is_left_early_ends_its_stream(server: jacserve.Server) -> None:
    jac = Case("seed_full").jacobian(server)
    batches = jac.batches("600MiB")  # the second one takes a while
    next(batches)
    begin = time.monotonic()
    batches.close()
    assert time.monotonic() - begin < 60
    wait_until(lambda: server.info().jobs_running == 0, "the job ends", 60)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("rows", [(4, 11), range(4, 11), slice(4, 11)])
def test_a_jacobian_of_some_rows_counts_from_their_begin(
    long_jacobian: jacserve.Jacobian, monkeypatch: pytest.MonkeyPatch, rows: Any, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(header, "SMALL_NBYTES", 0)
    some = _rows_of(long_jacobian, rows)
    assert some.is_in_memory == small
    assert some.shape == (7,)
    assert some.target_shape == long_jacobian.shape
    assert some.value.shape == long_jacobian.shape
    assert some.blocks["0.weight"].shape == (7, 7, 4)
    assert np.array_equal(some.rows(1, 3)["0.weight"], long_jacobian.rows(5, 7)["0.weight"])
    expected = long_jacobian["0.bias"][np.unravel_index(10, long_jacobian.shape)]
    np.testing.assert_allclose(some["0.bias"][-1], expected, rtol=1e-5)


def test_rows_are_the_same_bits_however_they_are_asked_for(long_jacobian: jacserve.Jacobian) -> None:
    whole = long_jacobian.rows()
    for begin, end in [(0, 1), (31, 33), (500, 777), (1799, 1800), (9, 9)]:
        part = long_jacobian.rows(begin, end)
        for name in whole:
            assert np.array_equal(part[name], whole[name][begin:end])


@pytest.mark.parametrize("rows", [(0, 16), (-1, 3), (4, 3)])
def test_rows_that_are_not_there_are_an_index_error(server: jacserve.Server, mlp: Case, rows: tuple[int, int]) -> None:
    with pytest.raises(jacserve.RowsOutOfRangeError):
        mlp.jacobian(server).rows(*rows)


def test_it_says_what_it_is(server: jacserve.Server) -> None:
    jac = Case("seed_architecture_narrow").jacobian(server)
    text = repr(jac)
    assert "12 rows x 2,308 columns" in text
    for name, block in jac.blocks.items():
        line = next(line for line in text.splitlines() if line.split()[0] == name)
        assert ("unconnected" in line) == (not block.connected)
    assert len(jac) == 12
    assert jac.nbytes == sum(block.nbytes for block in jac.blocks.values()) == 12 * 2308 * 4
    assert [rows for rows, _ in jac] == [rows for rows, _ in jac.batches()]
    assert "nn.Conv.bias" in jac
    with pytest.raises(KeyError, match=r"nn\.Conv\.bias"):
        jac["Conv.bias"]


def test_rows_are_a_mapping_and_can_be_unflattened(server: jacserve.Server, mlp: Case) -> None:
    rows = mlp.jacobian(server).rows(2, 4)
    assert (rows.begin, rows.end) == (2, 4)
    assert dict(rows) == rows.numpy() == rows.unflatten()
    assert rows["0.weight"].shape == (2, 7, 4)
    assert rows.nbytes == 2 * 79 * 4
