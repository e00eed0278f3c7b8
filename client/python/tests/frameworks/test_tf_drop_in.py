"""jacserve.tf.jacobian beside tape.jacobian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jacserve
import jacserve.tf
from jacserve.frameworks import cache_info


@pytest.fixture(autouse=True)
def float32() -> None:
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(3)


@pytest.fixture
def model() -> Any:
    layers = keras.layers
    made = keras.Sequential([layers.Dense(8, "tanh"), layers.BatchNormalization(), layers.Dense(3)])
    made.build((None, 4))
    return made


def check(target: Callable[[], Any], variables: Any, server: jacserve.LocalServer, **options: Any) -> None:
    sources = tf.nest.map_structure(lambda v: v if isinstance(v, tf.Variable) else v.value, variables)
    with tf.GradientTape(persistent=True) as tape:
        value = target()
    expected = tape.jacobian(value, sources, experimental_use_pfor=False, **options)
    got = jacserve.tf.jacobian(target, variables, server=server, **options)
    tf.nest.assert_same_structure(got, expected)
    for mine, theirs in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
        if theirs is None:
            assert mine is None
            continue
        assert isinstance(mine, tf.Tensor) and mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, atol=1e-9 if theirs.dtype == tf.float64 else 1e-4)


@pytest.mark.quick
@pytest.mark.parametrize("samples", [5, 100])  # TensorFlow puts small tensors into the graph and captures others
def test_a_batch_that_is_closed_over(samples: int, model: Any, server: jacserve.LocalServer) -> None:
    x = tf.random.normal((samples, 4))
    check(lambda: model(x), model.trainable_variables, server)


def test_structures_scalars_and_variables_that_are_not_reached(model: Any, server: jacserve.LocalServer) -> None:
    x, scale, aside = tf.random.normal((5, 4)), tf.Variable(2.0), tf.Variable([1.0, 2.0])
    variables = {"net": list(model.trainable_variables), "pair": (scale, aside)}
    check(lambda: scale * model(x), variables, server)
    check(lambda: scale * model(x), variables, server, unconnected_gradients=tf.UnconnectedGradients.ZERO)


@pytest.mark.parametrize("kind", ["loss", "similarities", "tokens"])
def test_targets_of_any_shape(kind: str, model: Any, server: jacserve.LocalServer) -> None:
    x, tokens = tf.random.normal((50, 4)), np.arange(6, dtype=np.int64).reshape(3, 2)
    table = tf.Variable(tf.random.normal((6, 4)))
    targets = {
        "loss": lambda: tf.reduce_mean(model(x) ** 2),
        "similarities": lambda: tf.matmul(model(x[:4]), model(x[4:7]), transpose_b=True),
        "tokens": lambda: model(tf.reduce_sum(tf.gather(table, tokens), 1)),
    }
    check(targets[kind], [*model.trainable_variables, table], server)


def test_functions_of_variables_alone_in_double_precision(server: jacserve.LocalServer) -> None:
    w = tf.Variable([1.0, 2.0, 3.0], dtype=tf.float64)
    check(lambda: tf.sin(w) * w, w, server)
    check(lambda: tf.reduce_sum(w**2), [w], server)


def test_another_batch_and_other_values_need_no_new_export(model: Any, server: jacserve.LocalServer) -> None:
    def of(x: Any) -> Any:
        return lambda: model(x)

    check(of(tf.random.normal((100, 4))), model.trainable_variables, server)
    exports = cache_info().misses
    model.trainable_variables[0].assign_add(tf.ones((4, 8)))
    check(of(tf.random.normal((100, 4))), model.trainable_variables, server)
    assert cache_info().misses == exports


def test_what_is_no_variable_is_refused(model: Any, server: jacserve.LocalServer) -> None:
    x = tf.random.normal((5, 4))
    with pytest.raises(jacserve.InvalidRequestError, match="is no variable"):
        jacserve.tf.jacobian(lambda: model(x), [x], server=server)
