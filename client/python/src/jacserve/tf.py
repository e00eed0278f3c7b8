"""`jacserve.tf.jacobian`: what `tape.jacobian` gives, of functions whose Jacobians it cannot.

In: a function without arguments and the variables that it reads. Out: TensorFlow tensors, in the variables' structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from jacserve.connection import Server
from jacserve.errors import InvalidRequestError
from jacserve.frameworks import _closed, _onnx, _tensorflow
from jacserve.frameworks.keras import variable_names, variable_of
from jacserve.progress import ProgressSetting

__all__ = ["jacobian"]

_ALIGNMENT = 64  # bytes; TensorFlow's operations end the process on tensors that are aligned to less


def jacobian(
    target_fn: Callable[[], Any],
    variables: Any,
    *,
    unconnected_gradients: tf.UnconnectedGradients = tf.UnconnectedGradients.NONE,
    server: Server | str | None = None,
    progress: ProgressSetting = None,
) -> Any:
    """`tape.jacobian(target, variables)` of the target that `target_fn()` returns.

        jac = jacserve.tf.jacobian(lambda: model(x, training=False), model.trainable_variables)

    The batch that `target_fn` closes over is found by its axis 0, which is the target's; then rows are computed from
    their own sample alone. The result is held in memory; jacserve.jacobian(model, x) streams it.

    Args:
        target_fn: returns one tensor; may read any variables and tensors. It is traced, as by tf.function.
        variables: a variable or nested lists, tuples and dicts of them; Keras' or TensorFlow's.
        unconnected_gradients: what stands for a variable that the target does not depend on: None or zeros.
        server: as for jacserve.jacobian.
        progress: as for jacserve.jacobian.

    Returns:
        Tensors of shape target shape + variable shape, in the structure of `variables`, of the variables' float type.

    Raises:
        InvalidRequestError: something in `variables` is no variable, or `target_fn` does not return one tensor.
        UnsupportedOperatorError: an operation has no ONNX form, or jacserve lacks it.
    """
    chosen = [variable_of(variable) for variable in _flat(variables)]
    closed = _close(target_fn, chosen, variable_names(_flat(variables)))
    (blocks,) = _closed.jacobians(closed, server=server, progress=progress)
    shape = closed.outputs[0][1]
    tensors = [
        _tensor(block, variable, shape, unconnected_gradients)
        for block, variable in zip(_closed.in_order(blocks, closed), chosen, strict=True)
    ]
    return tf.nest.pack_sequence_as(variables, tensors)


def _flat(variables: Any) -> list[Any]:
    flat: list[Any] = tf.nest.flatten(variables)
    for variable in flat:
        if not isinstance(variable, tf.Variable) and not hasattr(variable, "value"):
            raise InvalidRequestError(
                f"{type(variable).__name__} is no variable",
                "jacserve.jacobian(model, x, wrt_inputs=True) differentiates by inputs",
            )
    return flat


def _close(target_fn: Callable[[], Any], chosen: list[Any], names: list[str]) -> _closed.Closed:
    trace = _tensorflow.trace(target_fn, [], closed=True)
    if len(trace.outputs) != 1 or None in trace.output_shapes[0]:
        raise InvalidRequestError("target_fn must return one tensor of a known shape")
    trace.check_stops()
    exported = _onnx.EXPORTS.get(trace.key(), trace.export)
    place = {id(capture): f"c{index}:0" for index, capture in enumerate(trace.captures)}
    unread = (f"unread{index}" for index in range(len(chosen)))
    wrt = {place.get(id(variable)) or next(unread): name for variable, name in zip(chosen, names, strict=True)}
    arrays = {key: variable.numpy() for key, variable in zip(wrt, chosen, strict=True)}
    for index, capture in enumerate(trace.captures):
        value = capture.numpy() if hasattr(capture, "numpy") else capture
        arrays.setdefault(f"c{index}:0", np.ascontiguousarray(value))
    shape = tuple(size for size in trace.output_shapes[0] if size is not None)
    return _closed.Closed(exported, arrays, wrt, [(trace.outputs[0][0], shape)])


def _tensor(block: Any, variable: Any, shape: tuple[int, ...], unconnected: tf.UnconnectedGradients) -> Any:
    if block is not None:
        if block.ctypes.data % _ALIGNMENT:
            return tf.convert_to_tensor(block)  # a copy
        return tf.experimental.dlpack.from_dlpack(block.__dlpack__())  # the same memory
    if unconnected == tf.UnconnectedGradients.ZERO:
        return tf.zeros((*shape, *variable.shape), variable.dtype)
    return None
