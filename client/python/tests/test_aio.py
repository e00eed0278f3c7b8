"""The async client gives what the blocking one gives, while the event loop goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import numpy as np
import pytest

import events
import jacserve
from golden import Case
from jacserve import header
from scripted_server import ScriptedServer


def arguments(case: Case, server: Any) -> dict[str, Any]:
    return {"weights": case.weights, "target": case.target(), "wrt": case.about["wrt"], "server": server}


def assert_same(got: Any, expected: Any) -> None:
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert (got[name] is None) == (array is None)
        assert array is None or np.array_equal(got[name], array)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("name", ["pairwise_keras_cosine", "seed_architecture_narrow", "mlp_tanh"])
def test_rows_and_value_are_the_blocking_clients(
    server: jacserve.Server, monkeypatch: pytest.MonkeyPatch, name: str, small: bool
) -> None:
    case = Case(name)
    blocking = case.jacobian(server, wrt_inputs=())
    if not small:
        monkeypatch.setattr(header, "SMALL_NBYTES", 0)

    async def run() -> None:
        jac = await jacserve.aio.jacobian(case.graph, case.inputs["x"], **arguments(case, server))
        assert (jac.shape, len(jac), jac.nbytes) == (blocking.shape, len(blocking), blocking.nbytes)
        assert np.array_equal(jac.value, blocking.value)
        assert_same(await jac.rows(), blocking.rows())
        assert_same(await jac.rows(3, 7), blocking.rows(3, 7))
        assert "aio.AsyncJacobian" in repr(jac)

    asyncio.run(run())


@pytest.mark.usefixtures("nothing_is_small")
def test_batches_are_the_blocking_clients(long_jacobian: jacserve.Jacobian) -> None:
    functional = long_jacobian.functional

    async def run() -> int:
        jac = await jacserve.aio.jacobian(
            functional.graph, functional.inputs, weights=functional.weights, server=long_jacobian.server
        )
        at = 0
        async for rows, arrays in jac.batches("30KB"):
            assert rows.start == at
            assert_same(arrays, long_jacobian.rows(rows.start, rows.stop))
            at = rows.stop
        return at

    assert asyncio.run(run()) == len(long_jacobian)


def test_many_at_once_and_in_several_loops(server: jacserve.Server, mlp: Case) -> None:
    expected = mlp.jacobian(server, wrt_inputs=()).rows()

    async def one() -> Any:
        jac = await jacserve.aio.jacobian(mlp.graph, mlp.inputs["x"], **arguments(mlp, server))
        return await jac.rows()

    async def many() -> list[Any]:
        return await asyncio.gather(*(one() for _ in range(8)))

    for _ in range(2):
        for rows in asyncio.run(many()):
            assert_same(rows, expected)


def test_errors_are_the_blocking_clients(server: jacserve.Server, mlp: Case) -> None:
    async def run(**changes: Any) -> Any:
        jac = await jacserve.aio.jacobian(mlp.graph, mlp.inputs["x"], **{**arguments(mlp, server), **changes})
        return await jac.rows(0, 99)

    with pytest.raises(jacserve.RowsOutOfRangeError):
        asyncio.run(run())
    with pytest.raises(jacserve.InvalidRequestError, match="nothing"):
        asyncio.run(run(wrt=["nothing"]))


@pytest.mark.usefixtures("nothing_is_small")
def test_a_stream_that_fails_is_continued(mlp: Case) -> None:
    asked: list[int] = []

    def answers(request: Any, context: grpc.ServicerContext) -> Any:
        asked.append(request.rows.begin)
        whole = events.answer(request)
        if len(asked) == 2:
            yield from whole[:4]
            context.abort(grpc.StatusCode.UNAVAILABLE, "draining")
        yield from whole

    async def run(address: str) -> Any:
        connected = await jacserve.aio.connect(address, token="t")
        jac = await jacserve.aio.jacobian(mlp.graph, mlp.inputs["x"], weights=mlp.weights, server=connected)
        return await jac.rows()

    with ScriptedServer(answers) as scripted:
        rows = asyncio.run(run(scripted.address))
        assert {metadata.get("authorization") for metadata in scripted.metadata} == {"Bearer t"}
    assert np.array_equal(rows["w"], events.WHOLE)
    assert asked == [0, 0, 1]


@pytest.mark.usefixtures("nothing_is_small")
def test_a_cancelled_task_ends_its_stream(mlp: Case) -> None:
    ended = []

    def answers(request: Any, context: grpc.ServicerContext) -> Any:
        yield from events.answer(request)[:4]
        if request.rows.count:
            context.add_callback(lambda: ended.append(True))
            while context.is_active() and not ended:
                pass

    def whole_header(request: Any, context: grpc.ServicerContext) -> Any:
        return events.answer(request) if not request.rows.count else answers(request, context)

    async def run(address: str) -> None:
        connected = await jacserve.aio.connect(address)
        jac = await jacserve.aio.jacobian(mlp.graph, mlp.inputs["x"], weights=mlp.weights, server=connected)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(jac.rows(), 0.5)
        for _ in range(100):
            if ended:
                return
            await asyncio.sleep(0.05)

    with ScriptedServer(whole_header) as scripted:
        asyncio.run(run(scripted.address))
    assert ended
