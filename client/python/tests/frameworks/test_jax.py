"""JAX functions of a parameter pytree as functional graphs."""

from __future__ import annotations

from typing import Any

import export_jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core
from live_models import check, chosen, numbers

import jacserve
from jacserve.frameworks import cache_info, to_functional

MODELS = """mlp_softplus_sigmoid_silu seed_encoder_cosine embedding_sqdist conv_pooled transformer_block gru_unrolled
physics_informed_residual shared_weights bilinear_einsum"""


@pytest.mark.parametrize("case", chosen(export_jax, MODELS, "seed_encoder_cosine transformer_block"))
def test_a_live_model_has_its_own_float64_jacobian(case: Any, server: jacserve.LocalServer) -> None:
    check(export_jax, case, server)


def tree() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    return {
        "layers": [{"w": rng.standard_normal((3, 4), np.float32)}, {"w": rng.standard_normal((4, 2), np.float32)}],
        "gain": jnp.float32(1.5),
        "steps": 2,
    }


def apply(params: Any, x: Any) -> Any:
    for _ in range(params["steps"]):
        x = x + 1.0
    return params["gain"] * jnp.tanh(x @ params["layers"][0]["w"]) @ params["layers"][1]["w"]


@pytest.mark.quick
def test_names_are_paths_and_results_are_trees(server: jacserve.LocalServer) -> None:
    params, x = tree(), np.random.default_rng(1).standard_normal((5, 3), np.float32)
    jac = jacserve.jacobian((apply, params), x, server=server)
    assert list(jac.blocks) == ["gain", "layers.0.w", "layers.1.w"]
    result = jac.rows().unflatten()
    assert jax.tree_util.tree_structure(result, is_leaf=lambda leaf: leaf is None) == jax.tree_util.tree_structure(
        params
    )
    assert result["steps"] is None
    expected = jax.jacrev(lambda p: apply({**p, "steps": 2}, x))({k: v for k, v in params.items() if k != "steps"})
    np.testing.assert_allclose(result["layers"][0]["w"].reshape(5, 2, 3, 4), expected["layers"][0]["w"], atol=1e-4)
    np.testing.assert_allclose(result["gain"].reshape(5, 2), expected["gain"], atol=1e-4)


@pytest.mark.quick
def test_new_parameters_and_batch_sizes_need_no_new_export(server: jacserve.LocalServer) -> None:
    params, x = tree(), np.ones((1, 3), np.float32)
    before = numbers(jacserve.jacobian((apply, params), x, server=server))
    exports = cache_info().misses
    params["layers"][1]["w"] = params["layers"][1]["w"] + 1
    x = np.random.default_rng(1).standard_normal((6, 3), np.float32)
    after = jacserve.jacobian((apply, params), x, server=server)
    assert cache_info().misses == exports
    np.testing.assert_allclose(after.value, apply(params, x), atol=1e-4)
    assert not np.allclose(after["gain"][:1], before["gain"])


def test_another_function_and_another_constant_are_exported_again(server: jacserve.LocalServer) -> None:
    x, weight = np.ones((2, 3), np.float32), np.ones((3, 3), np.float32)
    seen = cache_info().misses
    for constant in (np.eye(3, dtype=np.float32), 2 * np.eye(3, dtype=np.float32)):

        def multiply(w: Any, x: Any, constant: Any = constant) -> Any:
            return x @ w @ jax.jit(lambda z: z @ constant)(jnp.eye(3))

        for _ in range(2):
            jac = jacserve.jacobian((multiply, weight), x, server=server)
            np.testing.assert_allclose(jac.value, multiply(weight, x), atol=1e-6)
        seen += 1
        assert cache_info().misses == seen
    assert list(jac.blocks) == ["params"]


@pytest.mark.quick
def test_a_primitive_without_onnx_form_is_named_with_its_line() -> None:
    whirl = core.Primitive("whirl")
    whirl.def_abstract_eval(lambda x: x)

    def storm(params: Any, x: Any) -> Any:
        return whirl.bind(x @ params)

    with pytest.raises(jacserve.UnsupportedOperatorError, match=r"whirl in test_jax\.py:\d+ \(.*storm\)"):
        to_functional((storm, np.eye(3, dtype=np.float32)), np.ones((2, 3), np.float32))


@pytest.mark.quick
@pytest.mark.parametrize("of", [lambda z: z, lambda z: z.max(-1, keepdims=True)], ids=["itself", "maximum"])
def test_stopped_gradients_are_refused_and_not_passed(of: Any) -> None:
    def stop(params: Any, x: Any) -> Any:
        return jax.jit(lambda z: z * jax.lax.stop_gradient(of(z)))(x @ params)

    weight, x = np.eye(3, dtype=np.float32), np.ones((2, 3), np.float32)
    with pytest.raises(jacserve.UnsupportedOperatorError, match=r"gradients are stopped .* in test_jax\.py:\d+"):
        to_functional((stop, weight), x)


@pytest.mark.quick
def test_the_maximum_in_softmax_has_no_part_in_the_derivative(server: jacserve.LocalServer) -> None:
    def shift(params: Any, x: Any) -> Any:
        logits = x @ params
        return jax.nn.logsumexp(2 * jax.nn.softmax(logits), -1) + jax.nn.log_softmax(logits)[:, 0]

    rng = np.random.default_rng(2)
    weight, x = rng.standard_normal((3, 3), np.float32), rng.standard_normal((2, 3), np.float32)
    jac = jacserve.jacobian((shift, weight), x, server=server)
    np.testing.assert_allclose(jac["params"][...], jax.jacrev(shift)(weight, x), atol=1e-4)


def test_what_the_exporter_refuses_is_said() -> None:
    def reduce(params: Any, x: Any) -> Any:
        return jax.lax.linalg.tridiagonal(params * x[0, 0])[0]

    with pytest.raises(jacserve.InvalidRequestError, match=r"jax2onnx does not export the function: .*tridiagonal"):
        to_functional((reduce, np.eye(3, dtype=np.float32)), np.ones((2, 3), np.float32))


def test_a_batch_that_the_function_does_not_take_is_said_in_jaxs_words() -> None:
    with pytest.raises(jacserve.InvalidRequestError, match=r"JAX refuses the function: TypeError: .*shape"):
        to_functional((lambda w, x: x @ w, np.eye(3, dtype=np.float32)), np.ones((2, 4), np.float32))


@pytest.mark.quick
@pytest.mark.parametrize("double", [False, True])
def test_numpys_float64_is_computed_as_jax_would(server: jacserve.LocalServer, double: bool) -> None:
    with jax.enable_x64(double):
        jac = jacserve.jacobian((lambda w, x: jnp.sin(x @ w), np.eye(3)), np.ones((2, 3)), server=server)
        assert jac.dtype == jac.value.dtype == (np.float64 if double else np.float32)


def test_parameters_are_needed_and_methods_are_not_there() -> None:
    with pytest.raises(jacserve.InvalidRequestError, match="needs its parameters"):
        to_functional(apply, np.ones((2, 3), np.float32))
    with pytest.raises(jacserve.InvalidRequestError, match="no methods"):
        to_functional((apply, tree()), np.ones((2, 3), np.float32), method="encode")
