"""A Keras model -> graph with its parameters as inputs, and its Jacobian by GradientTape in float64."""
import keras
import numpy as np
import onnx
import tensorflow as tf
import tf2onnx

from case import rename_inputs, write
from models_keras import CASES

__all__ = ["CASES", "export"]


def build(case, dtype, inputs):
    """The model with the same numbers in each dtype: float32's."""
    keras.utils.clear_session()  # so that names do not count on
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    model = case.build()
    call(model, [tf.constant(array) for array in inputs.values()])
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


def call(function, inputs, *state):
    """`function`: model or its stateless_call, which take one input bare and several as a list."""
    return function(*state, inputs[0] if len(inputs) == 1 else list(inputs))


def onnx_of(model, weights, inputs):
    """Through tf2onnx with the batch left open."""
    # What is not in `weights` goes in as numpy's: a tensor of TensorFlow's would become one more input.
    numbers = {variable.path: variable.numpy() for variable in model.variables}

    def function(*arrays):
        values = {**numbers, **dict(zip(weights, arrays))}
        trained, other = ([values[variable.path] for variable in variables]
                          for variables in (model.trainable_variables, model.non_trainable_variables))
        return call(model.stateless_call, arrays[len(weights):], trained, other)[0]

    signature = [tf.TensorSpec(value.shape, value.dtype, f"p{index}") for index, value in enumerate(weights.values())]
    signature += [tf.TensorSpec((None, *value.shape[1:]), value.dtype, name) for name, value in inputs.items()]
    exported, _ = tf2onnx.convert.from_function(tf.function(function, input_signature=signature),
                                                input_signature=signature, opset=18)
    # An input that the function does not reach is gone: put it back, and all into the function's order.
    there = {value.name: value for value in exported.graph.input}
    every = [there.get(spec.name) or onnx.helper.make_tensor_value_info(
        spec.name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype.as_numpy_dtype)), spec.shape.as_list())
        for spec in signature]
    del exported.graph.input[:]
    exported.graph.input.extend(every)
    rename_inputs(exported, [*weights, *inputs])
    return exported


def similarity(case, u, v):
    dot = tf.matmul(u, v, transpose_b=True)
    if case.pairwise == "dot":
        return case.sign * dot
    if case.pairwise == "sqdist":
        return case.sign * tf.reduce_sum((u[:, None] - v[None]) ** 2, -1)
    u_norm, v_norm = (tf.sqrt(tf.maximum(tf.reduce_sum(each * each, 1), case.epsilon)) for each in (u, v))
    return case.sign * dot / (u_norm[:, None] * v_norm[None])


def jacobian(case, model, batches):
    """(value, blocks of the parameters, blocks of the inputs), all float64; None where nothing is reached."""
    batches = [[tf.constant(array, tf.float64 if array.dtype == np.float32 else array.dtype)
                for array in batch.values()] for batch in batches]
    parameters = [variable.value for variable in model.trainable_variables]
    chosen = [array for batch in batches for array in batch if case.wrt_inputs and array.dtype == tf.float64]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(chosen)
        outputs = [call(model, batch) for batch in batches]
        value = similarity(case, *(tf.reshape(output, (output.shape[0], -1)) for output in outputs)) \
            if case.pairwise else outputs[0]
    blocks = tape.jacobian(value, parameters + chosen, experimental_use_pfor=False)
    blocks = [None if block is None else tf.convert_to_tensor(block).numpy() for block in blocks]
    return value.numpy(), blocks[:len(parameters)], blocks[len(parameters):]


def export(case, folder):
    batches = case.batches()
    model = build(case, "float32", batches[0])
    # What a batch norm has learned of its inputs is a weight too, though nothing is differentiated by it: inside the
    # graph the exporter would compute with it in float32.
    weights = {variable.path: variable.numpy() for variable in model.variables if variable.dtype == "float32"}
    exported = onnx_of(model, weights, batches[0])
    double = build(case, "float64", batches[0])
    value, blocks, input_blocks = jacobian(case, double, batches)
    names = [variable.path for variable in double.trainable_variables]
    write(folder, case, exported, weights, batches, value, dict(zip(names, blocks, strict=True)), input_blocks)
