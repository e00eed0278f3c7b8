"""jacserve.jax.jacrev beside jax.jacrev."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jacserve
import jacserve.jax
from jacserve.frameworks import cache_info


def normal(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape), jnp.float32)


PARAMS = {"a": {"w": normal(4, 8), "b": normal(8)}, "o": [normal(8, 3)], "unused": normal(2)}


def net(p: Any, x: Any) -> Any:
    return jax.nn.relu(x @ p["a"]["w"] + p["a"]["b"]) @ p["o"][0]


def check(function: Callable[..., Any], *args: Any, server: jacserve.LocalServer, **options: Any) -> None:
    expected = jax.jacrev(function, **options)(*args)
    got = jacserve.jax.jacrev(function, server=server, **options)(*args)
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(expected)
    for mine, theirs in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(expected), strict=True):
        assert isinstance(mine, jax.Array) and mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


@pytest.mark.quick
def test_a_batch_that_is_closed_over_and_a_new_one_without_a_new_export(server: jacserve.LocalServer) -> None:
    def of(x: Any) -> Any:
        return lambda p: net(p, x)

    check(of(normal(5, 4)), PARAMS, server=server)
    exports = cache_info().misses
    check(of(normal(5, 4) + 1), PARAMS, server=server)
    check(of(np.asarray(2 * normal(5, 4))), PARAMS, server=server)
    assert cache_info().misses == exports


@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_arguments_by_number(argnums: Any, server: jacserve.LocalServer) -> None:
    check(net, PARAMS, normal(5, 4), server=server, argnums=argnums)


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint, lambda f: f], ids=["jit", "checkpoint", "vmap"])
def test_transformed_functions(wrap: Any, server: jacserve.LocalServer) -> None:
    x = normal(6, 4)
    check(wrap(lambda p: jax.vmap(lambda sample: net(p, sample))(x)), PARAMS, server=server)


def test_outputs_of_any_structure_and_auxiliary_ones(server: jacserve.LocalServer) -> None:
    x = normal(5, 4)

    def apply(p: Any) -> Any:
        y = net(p, x)
        return {"loss": y.sum(), "pairs": (y @ y.T, y)}, x

    check(apply, PARAMS, server=server, has_aux=True)


def test_functions_of_parameters_alone_and_in_double_precision(server: jacserve.LocalServer) -> None:
    check(lambda w: jnp.sin(w) * w, normal(3), server=server)
    check(lambda w: (w**2).sum(), normal(3, 2), server=server)
    with jax.enable_x64(True):
        w = jnp.asarray(normal(3), jnp.float64)
        got = jacserve.jax.jacrev(lambda w: jnp.exp(w), server=server)(w)
        assert got.dtype == jnp.float64
        np.testing.assert_allclose(got, jax.jacrev(jnp.exp)(w), atol=1e-12)


def test_whole_numbers_are_refused(server: jacserve.LocalServer) -> None:
    with pytest.raises(jacserve.InvalidRequestError, match="argument 0"):
        jacserve.jax.jacrev(lambda w: w * 2.0, server=server)(jnp.ones(3, jnp.int32))
