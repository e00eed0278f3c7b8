"""A Keras model, and its Jacobian by GradientTape in float64."""
import keras
import numpy as np
import tensorflow as tf

from models_keras import CASES

__all__ = ["CASES", "arguments", "jacobian", "live"]


def live(case, batches):
    """The model in float32."""
    return build(case, "float32", batches[0])


def arguments(batch):
    """One input bare and several as a list."""
    arrays = list(batch.values())
    return arrays[0] if len(arrays) == 1 else arrays


def build(case, dtype, inputs):
    """The model with the same numbers in each dtype: float32's."""
    keras.utils.clear_session()  # so that names do not count on
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    model = case.build()
    model(arguments(inputs))
    rng = case.rng()
    for variable in model.variables:
        if "seed" in variable.path or not variable.dtype.startswith("float"):
            continue
        fan_in = np.prod(variable.shape[:-1]) if len(variable.shape) > 1 else 4
        value = rng.standard_normal(variable.shape) / np.sqrt(fan_in)
        if variable.path.endswith(("gamma", "scale")):
            value = 1 + 0.2 * value
        elif variable.path.endswith("moving_variance"):
            value = 0.5 + value ** 2
        variable.assign(value.astype(np.float32))
    return model


def similarity(case, u, v):
    dot = tf.matmul(u, v, transpose_b=True)
    if case.pairwise == "dot":
        return case.sign * dot
    if case.pairwise == "sqdist":
        return case.sign * tf.reduce_sum((u[:, None] - v[None]) ** 2, -1)
    u_norm, v_norm = (tf.sqrt(tf.maximum(tf.reduce_sum(each * each, 1), case.epsilon)) for each in (u, v))
    return case.sign * dot / (u_norm[:, None] * v_norm[None])


def jacobian(case, model, batches):
    """(value, blocks of the parameters, blocks of the inputs), all float64; None where nothing is reached. `model` is
    built again in float64, since Keras keeps its layers in one type."""
    model = build(case, "float64", batches[0])
    batches = [{name: tf.constant(array, tf.float64 if array.dtype == np.float32 else array.dtype)
                for name, array in batch.items()} for batch in batches]
    parameters = [variable.value for variable in model.trainable_variables]
    chosen = [array for batch in batches for array in batch.values() if case.wrt_inputs and array.dtype == tf.float64]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(chosen)
        outputs = [model(arguments(batch)) for batch in batches]
        value = similarity(case, *(tf.reshape(output, (output.shape[0], -1)) for output in outputs)) \
            if case.pairwise else outputs[0]
    blocks = tape.jacobian(value, parameters + chosen, experimental_use_pfor=False)
    blocks = [None if block is None else tf.convert_to_tensor(block).numpy() for block in blocks]
    return value.numpy(), blocks[:len(parameters)], blocks[len(parameters):]
