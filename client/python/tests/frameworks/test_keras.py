"""Keras models, and other holders of TensorFlow variables, as functional graphs."""

from __future__ import annotations

from typing import Any

import export_keras
import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from keras import layers
from live_models import check, chosen, numbers

import jacserve
from jacserve.frameworks import cache_info, to_functional

MODELS = """mlp_tanh_sigmoid seed_encoder_cosine seed_policy_head embedding_sqdist resnet_batch_norm
separable_and_depthwise mobile_blocks_relu6 conv_dilated_pooled transformer_encoder gru_unrolled token_embedding_conv
two_inputs_product"""


@pytest.fixture(autouse=True)
def float32() -> None:
    """As a user finds Keras; parity's models are built in float64 too."""
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(3)


@pytest.mark.parametrize("case", chosen(export_keras, MODELS, "seed_encoder_cosine resnet_batch_norm"))
def test_a_live_model_has_its_own_float64_jacobian(case: Any, server: jacserve.LocalServer) -> None:
    check(export_keras, case, server)


class Encoder(keras.Model):
    """As the seed's: a policy is its call, and the embedding a method."""

    def __init__(self) -> None:
        super().__init__(name="nn")
        self.conv = layers.Conv2D(3, 3, 2, "same", activation="relu", name="conv")
        self.flat = layers.Flatten()
        self.dense = layers.Dense(4, name="dense")
        self.policy = layers.Dense(2, name="policy")

    @tf.function
    def representation(self, x: Any) -> Any:
        return self.dense(self.flat(self.conv(x)))

    def call(self, x: Any) -> Any:
        return self.policy(self.representation(x))


def batch(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@pytest.mark.quick
def test_a_method_other_than_call_is_exported_with_names_and_layouts_of_keras(server: jacserve.LocalServer) -> None:
    encoder, x, y = Encoder(), batch(3, 6, 6, 2), batch(4, 6, 6, 2)
    encoder(x)  # the method is traced before: its variables must be found inside
    target = jacserve.pairwise(y, "cosine", sign=-1)
    jac = jacserve.jacobian(encoder, x, target=target, method="representation", server=server)
    assert sorted(jac.blocks) == sorted(variable.path for variable in encoder.trainable_variables)
    with tf.GradientTape() as tape:
        # Not by the method: TensorFlow 2.21 differentiates two calls of a tf.function in one jacobian() wrongly.
        embeddings = [encoder.dense(encoder.flat(encoder.conv(each))) for each in (x, y)]
        u, v = (tf.math.l2_normalize(each, -1) for each in embeddings)
        similarities = -tf.matmul(u, v, transpose_b=True)
    expected = tape.jacobian(similarities, [variable.value for variable in encoder.trainable_variables])
    np.testing.assert_allclose(jac.value, similarities, atol=1e-5)
    for variable, block in zip(encoder.trainable_variables, expected, strict=True):
        if block is None:
            assert jac[variable.path] is None
        else:
            np.testing.assert_allclose(jac[variable.path][...], block, atol=1e-5)
    assert jac["nn/conv/kernel"].shape == (3, 4, 3, 3, 2, 3)  # HWIO
    assert jac["nn/policy/kernel"] is None


@pytest.mark.quick
def test_new_weights_and_another_batch_size_need_no_new_export(server: jacserve.LocalServer) -> None:
    model = keras.Sequential([layers.Dense(5, "tanh"), layers.Dense(2)])
    x = batch(4, 3)
    model(x)
    before = numbers(jacserve.jacobian(model, x, server=server))
    exports = cache_info().misses
    model.set_weights([3 * weight + 1 for weight in model.get_weights()])
    x = batch(7, 3)
    after = numbers(jacserve.jacobian(model, x, server=server))
    assert cache_info().misses == exports
    with tf.GradientTape() as tape:
        value = model(x)
    for variable, block in zip(
        model.trainable_variables,
        tape.jacobian(value, [variable.value for variable in model.trainable_variables]),
        strict=True,
    ):
        np.testing.assert_allclose(after[variable.path], block, atol=1e-5)
        assert not np.allclose(after[variable.path][:4], before[variable.path]) or "bias" in variable.path


def test_a_model_that_is_built_alike_shares_the_export_and_keeps_its_names(server: jacserve.LocalServer) -> None:
    x, exports, names = batch(4, 3), [], []
    for _ in range(2):
        model = keras.Sequential([layers.Dense(6, "relu"), layers.Dense(2)])
        model(x)
        jac = jacserve.jacobian(model, x, server=server)
        exports.append(cache_info().misses)
        names.append(list(jac.blocks))
        assert sorted(jac.blocks) == sorted(variable.path for variable in model.trainable_variables)
    assert exports[0] == exports[1]
    assert names[0] != names[1]  # Keras numbers its layers


def test_a_changed_architecture_is_exported_again(server: jacserve.LocalServer) -> None:
    model = keras.Sequential([layers.Dense(5, "tanh"), layers.Dense(2)])
    x = batch(4, 3)
    model(x)
    smooth = numbers(jacserve.jacobian(model, x, server=server))
    exports = cache_info().misses
    model.layers[0].activation = keras.activations.sigmoid
    other = numbers(jacserve.jacobian(model, x, server=server))
    assert cache_info().misses == exports + 1
    assert not np.allclose(smooth[model.trainable_variables[0].path], other[model.trainable_variables[0].path])


def test_what_batch_norm_has_learned_is_an_input_and_no_parameter(server: jacserve.LocalServer) -> None:
    model = keras.Sequential([layers.Dense(5), layers.BatchNormalization(name="norm"), layers.Dense(2)])
    x = batch(4, 3)
    model(x)
    jac = jacserve.jacobian(model, x, server=server)
    assert not [name for name in jac.blocks if "moving" in name]
    exports = cache_info().misses
    variance = next(variable for variable in model.variables if variable.path.endswith("moving_variance"))
    variance.assign(4 * variance.value)
    kernel = model.trainable_variables[0].path
    halved = jacserve.jacobian(model, x, server=server)
    assert cache_info().misses == exports
    np.testing.assert_allclose(2 * halved[kernel][...], jac[kernel][...], rtol=2e-3, atol=1e-5)


def test_frozen_layers_are_not_differentiated(server: jacserve.LocalServer) -> None:
    model = keras.Sequential([layers.Dense(5, "tanh", name="frozen"), layers.Dense(2, name="head")])
    x = batch(4, 3)
    model(x)
    model.layers[0].trainable = False
    jac = jacserve.jacobian(model, x, server=server)
    assert [name.rpartition("/")[0].rpartition("/")[2] for name in jac.blocks] == ["head", "head"]


def test_given_parameters_replace_the_models(server: jacserve.LocalServer) -> None:
    model = keras.Sequential([layers.Dense(3, "tanh")])
    x = batch(4, 3)
    model(x)
    other = [2 * variable.numpy() for variable in model.trainable_variables]
    functional = to_functional(model, x, params=other)
    jac = jacserve.jacobian(functional, None, server=server)
    np.testing.assert_allclose(jac.value, np.tanh(x @ other[0] + other[1]), atol=1e-6)
    assert [block.shape for block in jac.rows().unflatten()] == [(12, 3, 3), (12, 3)]
    with pytest.raises(jacserve.InvalidRequestError, match="no parameter nothing"):
        to_functional(model, x, params={"nothing": 1.0})


def test_a_subclassed_model_of_keras_2_and_its_methods(server: jacserve.LocalServer) -> None:
    kinds = tf_keras.layers

    class Old(tf_keras.Model):
        def __init__(self) -> None:
            super().__init__(name="old")
            self.hidden, self.norm, self.head = kinds.Dense(5, "tanh"), kinds.BatchNormalization(), kinds.Dense(2)

        def representation(self, x: Any) -> Any:
            return self.norm(self.hidden(x))

        def call(self, x: Any) -> Any:
            return self.head(self.representation(x))

    old, x = Old(), batch(4, 3)
    old(x)
    jac = jacserve.jacobian(old, x, method="representation", server=server)
    with tf.GradientTape() as tape:
        value = old.representation(x)
    names = [variable.name.removesuffix(":0") for variable in old.trainable_variables]
    assert sorted(jac.blocks) == sorted(names)
    for name, block in zip(names, tape.jacobian(value, old.trainable_variables), strict=True):
        if block is None:
            assert jac[name] is None
        else:
            np.testing.assert_allclose(jac[name][...], block, atol=1e-5)


def test_a_module_of_plain_variables_is_a_model_too(server: jacserve.LocalServer) -> None:
    class Affine(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(batch(3, 2), name="w")
            self.table = tf.Variable(batch(5, 3), name="table")

        def __call__(self, tokens: Any) -> Any:
            return tf.gather(self.table, tokens) @ self.w

    affine, tokens = Affine(), np.array([0, 4, 4, 1], np.int64)
    jac = jacserve.jacobian(affine, tokens, server=server)
    with tf.GradientTape() as tape:
        value = affine(tokens)
    assert sorted(jac.blocks) == ["table", "w"]
    expected = tape.jacobian(value, affine.w)
    np.testing.assert_allclose(jac["w"][...], expected, atol=1e-6)
    assert jac["table"].shape == (4, 2, 5, 3)


@pytest.mark.quick
def test_an_operation_without_onnx_form_is_named_with_its_layer() -> None:
    class Root(layers.Layer):
        def call(self, x: Any) -> Any:
            return tf.linalg.cholesky(tf.eye(3) + tf.matmul(x[:, :, None], x[:, None, :]))

    model = keras.Sequential([layers.Dense(3), Root(name="covariance")])
    x = batch(4, 3)
    model(x)
    with pytest.raises(jacserve.UnsupportedOperatorError, match=r"Cholesky in covariance \(Root\)"):
        to_functional(model, x)


@pytest.mark.quick
@pytest.mark.parametrize("of", ["itself", "maximum", "mean"])
def test_stopped_gradients_are_refused_and_not_passed(of: str) -> None:
    class Stop(layers.Layer):
        def call(self, x: Any) -> Any:
            what = {"itself": x, "maximum": keras.ops.max(x, -1, True), "mean": keras.ops.mean(x, -1, True)}
            return x * keras.ops.stop_gradient(what[of])

    model = keras.Sequential([layers.Dense(3), Stop(name="half")])
    x = batch(4, 3)
    model(x)
    with pytest.raises(jacserve.UnsupportedOperatorError, match=r"gradients are stopped .* in half \(Stop\)"):
        to_functional(model, x)


@pytest.mark.quick
def test_stopped_gradients_that_have_no_part_in_the_derivative_do_no_harm(server: jacserve.LocalServer) -> None:
    model = keras.Sequential(
        [layers.Dense(3), layers.LayerNormalization(), layers.Lambda(lambda x: tf.reduce_logsumexp(x, -1))]
    )
    x = batch(4, 3)
    model(x)
    jac = jacserve.jacobian(model, x, server=server)
    with tf.GradientTape() as tape:
        value = model(x)
    kernel = model.trainable_variables[0]
    expected = tape.jacobian(value, kernel.value)
    np.testing.assert_allclose(jac[kernel.path][...], expected, atol=1e-4)


def test_an_operator_that_jacserve_lacks_is_named_with_its_layer(server: jacserve.LocalServer) -> None:
    model = keras.Sequential([layers.Dense(9), layers.Reshape((3, 3)), layers.Lambda(tf.linalg.det, name="volume")])
    x = batch(2, 5)
    model(x)
    with pytest.raises(jacserve.UnsupportedOperatorError, match=r"Det.*volume"):
        jacserve.jacobian(model, x, server=server)


def test_a_loop_is_named_with_what_to_do(server: jacserve.LocalServer) -> None:
    def halved(x: Any) -> Any:
        return tf.while_loop(lambda x: tf.reduce_any(tf.abs(x) > 1), lambda x: [x / 2], [x])[0]

    model = keras.Sequential([layers.Dense(3), layers.Lambda(halved, name="shrink")])
    x = batch(2, 5)
    model(x)
    with pytest.raises(jacserve.UnsupportedOperatorError, match=r"(?s)shrink.*hint: loops .* unroll"):
        jacserve.jacobian(model, x, server=server)


@pytest.mark.parametrize(
    "layer",
    [
        layers.LSTM(3, return_sequences=True),
        layers.GRU(3),
        layers.Bidirectional(layers.SimpleRNN(2)),
        tf_keras.layers.LSTM(3),
    ],
    ids=["lstm", "gru", "both_ways", "keras_2"],
)
def test_recurrent_layers_are_exported_without_their_loop(layer: Any, server: jacserve.LocalServer) -> None:
    kinds = tf_keras if isinstance(layer, tf_keras.layers.Layer) else keras
    model = kinds.Sequential([layer, kinds.layers.Dense(2)])
    x = batch(2, 5, 3)
    value = model(x)
    jac = jacserve.jacobian(model, x, server=server)
    assert getattr(layer, "unroll", False) is False
    np.testing.assert_allclose(jac.value, value, atol=1e-5)
    variables = [getattr(variable, "value", variable) for variable in model.trainable_variables]
    variables = model.trainable_variables if kinds is tf_keras else variables
    with tf.GradientTape(persistent=True) as tape:
        value = model(x)
    expected = tape.jacobian(value, variables, experimental_use_pfor=False)  # which its loops have no form of
    for name, block in zip(jac.functional.parameter_names, expected, strict=True):
        np.testing.assert_allclose(jac[name][...], block, atol=1e-5)


@pytest.mark.quick
def test_a_batch_that_the_model_does_not_take_is_said_in_kerass_words() -> None:
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2, name="head")])
    with pytest.raises(
        jacserve.InvalidRequestError, match=r"does not take such a batch: ValueError: Exc.* shape"
    ) as found:
        to_functional(model, batch(4, 5))
    assert isinstance(found.value.__cause__, ValueError)
    assert "\x1b" not in str(found.value)


def test_a_missing_method_and_a_wrong_number_of_inputs_are_said() -> None:
    model = keras.Sequential([layers.Dense(2)])
    model(batch(4, 3))
    with pytest.raises(jacserve.InvalidRequestError, match="no method encode"):
        to_functional(model, batch(4, 3), method="encode")
    functional = to_functional(model, batch(4, 3))
    with pytest.raises(jacserve.InvalidRequestError, match="2 inputs were given, the model takes 1"):
        functional.flatten_inputs([batch(4, 3), batch(4, 3)])
