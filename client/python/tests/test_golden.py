"""Golden cases through a real server, compared with the frameworks' own float64 numbers."""

from __future__ import annotations

import numpy as np
import pytest

import jacserve
from golden import GOLDEN, NAMES, Case

TOLERANCE = {"fp64": 1e-9, "fp32": 1e-4}


def assert_close(got: np.ndarray, expected: np.ndarray, precision: str, name: str) -> None:
    assert got.shape == expected.shape, name
    limit = TOLERANCE[precision] * np.abs(expected).max(initial=0)
    # A block that is zero but for rounding has no largest value to go by.
    assert np.abs(got - expected).max(initial=0) <= max(limit, 1e-5 if name == "value" else 1e-12), name


def test_cases_are_there() -> None:
    assert len(NAMES) >= 12


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_and_value_are_the_frameworks_own(server: jacserve.Server, name: str, precision: str) -> None:
    case = Case(name)
    jac = case.jacobian(server, precision=precision)
    rows = jac.rows()
    for key, expected in case.expected.items():
        got = jac.value if key == "value" else rows[key].reshape(jac.blocks[key].shape)
        assert_close(got, expected, precision, key)
    for key in case.about.get("unconnected", []):
        assert jac[key] is None
        assert rows[key] is None
        assert not jac.blocks[key].connected
        assert jac.blocks[key].nbytes == 0


@pytest.mark.parametrize("name", ["mlp_tanh", "pairwise_keras_cosine", "coupled_batch", "plain_onnx_initializers"])
def test_a_block_alone_is_the_same_to_rounding(server: jacserve.Server, name: str) -> None:
    case = Case(name)
    jac = case.jacobian(server, precision="fp64")
    for key, expected in case.expected.items():
        if key != "value":
            assert_close(np.asarray(jac[key]), expected, "fp64", key)


@pytest.mark.parametrize(
    ("form", "what"),
    [
        (lambda path: path, "a path as text"),
        (lambda path: GOLDEN / "plain_onnx_initializers/graph.onnx", "a Path"),
        (lambda path: (GOLDEN / "plain_onnx_initializers/graph.onnx").read_bytes(), "bytes"),
        (lambda path: __import__("onnx").load(path), "a ModelProto"),
    ],
)
def test_an_onnx_model_may_be_given_as(server: jacserve.Server, form: object, what: str) -> None:
    case = Case("plain_onnx_initializers")
    jac = jacserve.jacobian(form(case.graph), case.inputs["x"], server=server)  # type: ignore[operator]
    assert_close(jac.rows()["0.weight"].reshape(jac.blocks["0.weight"].shape), case.expected["0.weight"], "fp32", what)


def test_inputs_may_be_given_by_name_and_weights_as_dict(server: jacserve.Server, mlp: Case) -> None:
    weights = dict(np.load(mlp.weights))
    by_name = jacserve.jacobian(mlp.graph, {"x": mlp.inputs["x"]}, weights=weights, server=server)
    assert np.array_equal(by_name.rows()["0.weight"], mlp.jacobian(server, wrt_inputs=()).rows()["0.weight"])


def test_new_weights_give_new_numbers_without_a_new_graph(server: jacserve.Server, mlp: Case) -> None:
    weights = dict(np.load(mlp.weights))
    before = jacserve.jacobian(mlp.graph, mlp.inputs["x"], weights=weights, server=server).rows()
    weights["2.weight"] = weights["2.weight"] * 2
    stored = server.info().store_bytes
    after = jacserve.jacobian(mlp.graph, mlp.inputs["x"], weights=weights, server=server).rows()
    np.testing.assert_allclose(after["0.bias"], 2 * before["0.bias"], rtol=1e-5)
    assert server.info().store_bytes - stored == weights["2.weight"].nbytes


def test_an_empty_batch_gives_no_rows(server: jacserve.Server, mlp: Case) -> None:
    jac = jacserve.jacobian(mlp.graph, np.zeros((0, 4), np.float32), weights=mlp.weights, server=server)
    assert jac.shape == (0, 3)
    assert len(jac) == 0
    assert jac.rows()["0.weight"].shape == (0, 7, 4)
    assert np.asarray(jac["0.weight"]).shape == (0, 3, 7, 4)
    assert list(jac.batches()) == []


def test_the_seeds_rows_are_the_expected_ones(server: jacserve.Server) -> None:
    case = Case("seed_full")
    jac = case.jacobian(server)
    expected = case.expected
    assert jac.shape == (56, 56)
    assert jac.blocks["dense0.kernel"].shape == (56, 56, *jac.blocks["dense0.kernel"].parameter_shape)
    assert_close(jac.value, expected["value"], "fp32", "value")
    for row in (0, 1571, 3135):
        rows = jac.rows(row, row + 1)
        for name, array in rows.items():
            if array is not None:
                assert np.linalg.norm(array) == pytest.approx(expected[f"norm/{name}"].reshape(-1)[row], rel=1e-4)
            if f"row/{row}/{name}" in expected:
                assert_close(array[0], expected[f"row/{row}/{name}"], "fp32", name)
    for name in ("Conv.kernel", "dense1.bias"):
        assert_close(jac[name][28, 3], expected[f"row/1571/{name}"], "fp32", name)


def test_half_precision_is_said_and_near(server: jacserve.Server, mlp: Case) -> None:
    jac = mlp.jacobian(server, precision="bf16")
    assert jac.precision == "bf16"
    assert jac.dtype == np.float32
    expected = mlp.expected["0.weight"]
    assert np.abs(np.asarray(jac["0.weight"]) - expected).max() <= 0.05 * np.abs(expected).max()
    assert jac.computed.underflows == jac.computed.overflows == 0


@pytest.mark.parametrize(("factor", "lost"), [(1e-9, "underflows"), (1e9, "overflows")])
def test_numbers_that_half_precision_loses_are_counted(
    server: jacserve.Server, mlp: Case, factor: float, lost: str
) -> None:
    x = (mlp.inputs["x"] * factor).astype(np.float32)
    jac = jacserve.jacobian(mlp.graph, x, weights=mlp.weights, precision="fp16", server=server)
    jac.rows()
    assert getattr(jac.computed, lost) > 0
