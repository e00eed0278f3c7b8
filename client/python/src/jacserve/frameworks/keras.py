"""A Keras model, or anything else that holds TensorFlow variables, -> Functional.

In: a Keras 3 model on TensorFlow, a tf_keras model or a tf.Module; a batch; perhaps the name of a method other than
its call. Out: the functional graph. Parameters are the trainable variables by their paths; other float variables that
are read, such as what a batch normalization has learned of its inputs, are shared inputs.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from jacserve.errors import InvalidRequestError
from jacserve.frameworks import _onnx, _tensorflow
from jacserve.functional import Functional

Arrays = dict[str, NDArray[Any]]


def to_functional(model: Any, x: Any, *, method: str | None = None, params: Any = None) -> Functional:
    """Exports `model`, or takes the export of one that is built alike.

    Args:
        model: callable with `trainable_variables`; a model that was never called is called once, to be built.
        x: a batch, samples along axis 0. A tuple holds several arguments; a list or dict is one argument of several
            arrays, as a functional Keras model takes it.
        method: what to call instead of the model itself, as "representation".
        params: values in place of the trainable variables', in their order or by name.

    Raises:
        InvalidRequestError: the model lives on another backend, has no such method or does not take such a batch.
        UnsupportedOperatorError: an operation has no ONNX form; names it and the layer.
    """
    _check_backend(model)
    function = _method(model, method)
    arguments = x if isinstance(x, tuple) else (x,)
    if not getattr(model, "built", True):
        with _onnx.refusals(f"{type(model).__name__} does not take such a batch"):
            function(*arguments)
    trainable = [variable_of(variable) for variable in model.trainable_variables]
    leaves = [_array(leaf, trainable) for leaf in tf.nest.flatten(list(arguments))]
    taken = variable_names(model.trainable_variables)
    names = _onnx.unique(_names(model, method, function, arguments), taken)

    def flat(*tensors: Any) -> Any:
        return function(*tf.nest.pack_sequence_as(list(arguments), tensors))

    signature = [tf.TensorSpec((None, *leaf.shape[1:]) if leaf.ndim else (), leaf.dtype) for leaf in leaves]
    with _unrolled(model), _onnx.refusals(f"{type(model).__name__} does not take such a batch"):
        trace = _tensorflow.trace(flat, signature)
    trace.layers = _layers(model, trace.layers)
    trace.check_stops()
    exported = _onnx.EXPORTS.get(trace.key(), trace.export)

    weights = {name: np.ascontiguousarray(variable.numpy()) for name, variable in zip(taken, trainable, strict=True)}
    named = {id(variable): name for name, variable in zip(taken, trainable, strict=True)}
    others = [capture for capture in trace.captures if id(capture) not in named]
    other_names = _onnx.unique((_name_of(other) for other in others), [*taken, *names])
    named.update({id(other): name for other, name in zip(others, other_names, strict=True)})
    inputs = {f"x{index}:0": name for index, name in enumerate(names)}
    inputs.update({f"c{index}:0": named[id(capture)] for index, capture in enumerate(trace.captures)})
    there = {inputs[value.name] for value in exported.graph.input}
    graph = _onnx.name_graph(exported, inputs, [name for name, _ in trace.outputs])
    given = {name: leaf for name, leaf in zip(names, leaves, strict=True) if name in there}
    shared = {name: np.ascontiguousarray(other.numpy()) for name, other in zip(other_names, others, strict=True)}
    shared.update({name: leaf for name, leaf in given.items() if not leaf.ndim})

    def flatten_inputs(batch: Any) -> Arrays:
        every = tf.nest.flatten(list(batch) if isinstance(batch, tuple) else [batch])
        named_arrays = _onnx.arrays_by_name(names, [_array(leaf, trainable) for leaf in every])
        return {name: array for name, array in named_arrays.items() if array.ndim and name in there}

    return Functional(
        graph=graph,
        inputs={name: leaf for name, leaf in given.items() if leaf.ndim},
        weights=weights if params is None else _given(params, weights),
        shared_inputs={name: value for name, value in shared.items() if name in there},
        parameter_names=list(taken),
        unflatten=lambda blocks: [blocks.get(name) for name in taken],
        names_to_layers=trace.layers,
        flatten_inputs=flatten_inputs,
    )


def _check_backend(model: Any) -> None:
    if type(model).__module__.startswith("tf_keras") or not _is_keras(model):
        return
    import keras

    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise InvalidRequestError(
            f"the Keras model lives on {backend}",
            "jacserve exports Keras models from TensorFlow: set KERAS_BACKEND=tensorflow and load the model there",
        )


def _is_keras(model: Any) -> bool:
    return any(kind.__module__.partition(".")[0] == "keras" for kind in type(model).__mro__)


def _method(model: Any, method: str | None) -> Callable[..., Any]:
    function: Callable[..., Any] | None = model if method is None else getattr(model, method, None)
    if not callable(function):
        raise InvalidRequestError(f"{type(model).__name__} has no method {method or '__call__'}")
    return function


def variable_of(variable: Any) -> Any:
    """The tf.Variable in a Keras variable, or the variable itself."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def variable_names(variables: Any) -> list[str]:
    """Paths of Keras variables, names of TensorFlow's; those that are alike get numbers."""
    return _onnx.unique(_name_of(variable) for variable in variables)


def _name_of(capture: Any) -> str:
    name = getattr(capture, "path", None) or (capture.name if isinstance(capture, tf.Variable) else "constant")
    return str(name).removesuffix(":0")


def _array(leaf: Any, variables: list[Any]) -> NDArray[Any]:
    """A numpy array; floats in the parameters' type, as Keras itself casts them."""
    array = np.ascontiguousarray(leaf) if not hasattr(leaf, "numpy") else np.ascontiguousarray(leaf.numpy())
    floats = [variable.dtype.as_numpy_dtype for variable in variables if variable.dtype.is_floating]
    return array.astype(floats[0]) if floats and array.dtype.kind == "f" else array


def _names(model: Any, method: str | None, function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[str]:
    """Names of a batch's arrays: those of a functional model's inputs where somebody gave them, else the call's."""
    given = _named_inputs(model) if method is None else []
    return given if len(given) == len(tf.nest.flatten(list(arguments))) else _input_names(function, arguments)


def _named_inputs(model: Any) -> list[str]:
    """Names that somebody gave the inputs of a functional model, or none."""
    names = [str(tensor.name) for tensor in getattr(model, "inputs", None) or []]
    return [] if any(name.startswith(("keras_tensor", "input_layer")) for name in names) else names


def _input_names(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[str]:
    """Names of the call's arguments; of several arrays in one argument, `name.key`."""
    called = function
    if not inspect.ismethod(function) and not inspect.isfunction(function):
        called = getattr(function, "call", function)
    called = getattr(called, "python_function", called)
    parameters = list(inspect.signature(called).parameters.values())
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    names += [f"x{index}" for index in range(len(names), len(arguments))]
    return [
        leaf_name
        for name, argument in zip(names, arguments, strict=False)
        for leaf_name in _nested_names(argument, name)
    ]


def _nested_names(argument: Any, name: str) -> list[str]:
    if isinstance(argument, Mapping):  # in the order of tf.nest
        return [leaf for key in sorted(argument) for leaf in _nested_names(argument[key], f"{name}.{key}")]
    if isinstance(argument, (list, tuple)):
        return [leaf for index, part in enumerate(argument) for leaf in _nested_names(part, f"{name}.{index}")]
    return [name]


@contextlib.contextmanager
def _unrolled(model: Any) -> Iterator[None]:
    """Recurrent layers without their loop over time, which has no form among jacserve's operators; then as before."""
    changed = []
    for layer in model._flatten_layers() if hasattr(model, "_flatten_layers") else []:
        if getattr(layer, "unroll", None) is False:
            # Of Keras 2 alone: a loop of its own where a GPU's kernel might be chosen.
            for name, value in (("unroll", True), ("_could_use_gpu_kernel", False)):
                if hasattr(layer, name):
                    changed.append((layer, name, getattr(layer, name)))
                    setattr(layer, name, value)
    try:
        yield
    finally:
        for layer, name, value in changed:
            setattr(layer, name, value)


def _given(params: Any, weights: Arrays) -> Arrays:
    """`params` in the order of the weights or by their names."""
    given = params if isinstance(params, Mapping) else dict(zip(weights, params, strict=True))
    result = dict(weights)
    for name, value in given.items():
        if name not in weights:
            raise InvalidRequestError(f"the model has no parameter {name}", f"it has {', '.join(weights)}")
        result[name] = np.ascontiguousarray(value, weights[name].dtype)
        if result[name].shape != weights[name].shape:
            raise InvalidRequestError(f"{name} has shape {weights[name].shape}, {result[name].shape} was given")
    return result


def _layers(model: Any, scopes: Mapping[str, str]) -> dict[str, str]:
    """{prefix of a node's name: its layer}, a layer with its class where the model lists it."""
    listed = model._flatten_layers() if hasattr(model, "_flatten_layers") else []
    kinds = {layer.name: type(layer).__name__ for layer in listed if layer is not model}
    result = {}
    for prefix, scope in scopes.items():
        for part in reversed(scope.split("/")):
            name = part if part in kinds else re.sub(r"_\d+$", "", part)
            if name in kinds:
                result[prefix] = f"{name} ({kinds[name]})"
                break
        else:
            if scope:
                result[prefix] = scope
    return result
