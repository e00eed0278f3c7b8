"""A TensorFlow function -> graph whose variables are inputs.

In: a Python function that reads variables and may close over tensors. Out: its trace with every name replaced by a
number (the same for two models built alike), and the ONNX graph of that trace. Variables are found by what the trace
captures, so it does not matter how deep inside other tf.functions, layers or modules they are read.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2_as_graph
from tf2onnx import optimizer, tf_loader, tfonnx

from jacserve.errors import InvalidRequestError
from jacserve.frameworks import _onnx
from jacserve.frameworks._closed import lifted

OPSET = 18

_STOPS = ("StopGradient", "PreventGradient")
_PASSED = ("SelectV2", "Select", "Reshape", "Squeeze", "Identity", "ExpandDims")


@dataclass
class Trace:
    """One function, traced.

    graph_def: nodes are numbered; placeholders are `x0`, `x1`, ... for arguments and `c0`, `c1`, ... for captures.
    captures: captured variables (tf.Variable) and tensors, in the order of their placeholders.
    outputs: (name, tensor's name in graph_def).
    layers: {prefix of a node's name: name scope that TensorFlow gave it, or a better name for it}.
    """

    graph_def: Any
    captures: list[Any]
    outputs: list[tuple[str, str]]
    output_shapes: list[tuple[int | None, ...]]
    layers: dict[str, str]

    def key(self) -> str:
        names = " ".join(f"{name}={tensor}" for name, tensor in self.outputs)
        content = self.graph_def.SerializeToString(deterministic=True)
        return _onnx.digest(content, names, _onnx.versions(tf, tf2onnx))

    def check_stops(self) -> None:
        """UnsupportedOperatorError where gradients of an argument or a variable are stopped, unless that has no part in
        the derivative."""
        floats = {f"c{index}" for index, each in enumerate(self.captures) if getattr(each, "trainable", False)}
        reached: set[str] = set()
        layers = []
        for node in self.graph_def.node:  # each after its inputs
            inputs = {_node_of(reference) for reference in node.input}
            argument = node.op == "Placeholder" and node.name.startswith("x")
            if (
                inputs & reached
                or node.name in floats
                or (argument and tf.as_dtype(node.attr["dtype"].type).is_floating)
            ):
                reached.add(node.name)
                if node.op in _STOPS and not self._cancels(node):
                    layers.append(_onnx.layer_in(node.name, self.layers))
        if layers:
            raise _onnx.stopped(layers)

    def _cancels(self, node: Any) -> bool:
        """Whether this is the maximum that logsumexp subtracts and adds again, or the mean that a variance is about."""
        nodes = {each.name: each for each in self.graph_def.node}
        users: dict[str, list[Any]] = {}
        for each in self.graph_def.node:
            for reference in each.input:
                users.setdefault(_node_of(reference), []).append(each)
        if any(_node_of(tensor) == node.name for _, tensor in self.outputs):
            return False
        return any(
            _made_by(node, made, nodes) and _used_by(node, used, users)
            for made, used in (("Max", ("Sub", "AddV2", "Add")), ("Mean", ("SquaredDifference",)))
        )

    def export(self) -> onnx.ModelProto:
        """The graph with inputs `x0:0`, ..., `c0:0`, ... in that order, as far as they are used."""
        inputs = [f"{node.name}:0" for node in self.graph_def.node if node.op == "Placeholder"]
        outputs = list(dict.fromkeys(tensor for _, tensor in self.outputs))
        with _quiet(), tf.device("/cpu:0"):
            with tf.Graph().as_default():
                tf.import_graph_def(self.graph_def, name="")
                folded = tf_loader.tf_optimize(inputs, outputs, self.graph_def)
            with tf.Graph().as_default() as graph:
                tf.import_graph_def(folded, name="")
                with _onnx.refusals("tf2onnx does not export the model"):
                    converted = tfonnx.process_tf_graph(
                        graph,
                        continue_on_error=True,
                        custom_op_handlers={"Erfc": (_one_minus_erf, [])},
                        opset=OPSET,
                        input_names=inputs,
                        output_names=outputs,
                    )
                    model: onnx.ModelProto = optimizer.optimize_graph(converted).make_model("jacserve")
        _onnx.check_operators(model, self.layers)
        produced = {value.name: value for value in model.graph.output}
        ordered = [produced[tensor] for _, tensor in self.outputs]
        del model.graph.output[:]
        model.graph.output.extend(ordered)
        return model


def _one_minus_erf(ctx: Any, node: Any, name: str, _: Any) -> None:
    """erfc(x) = 1 - erf(x), which tf2onnx has no form of: TensorFlow's exact gelu is made of it."""
    erf = ctx.make_node("Erf", [node.input[0]]).output[0]
    shapes, dtypes = node.output_shapes, node.output_dtypes
    one = ctx.make_const(f"{name}_one", np.array(1, onnx.helper.tensor_dtype_to_np_dtype(dtypes[0]))).output[0]
    ctx.remove_node(node.name)
    ctx.make_node("Sub", [one, erf], name=name, outputs=node.output, shapes=shapes, dtypes=dtypes)


def trace(function: Callable[..., Any], signature: Sequence[Any], *, closed: bool = False) -> Trace:
    """Traces `function` at these tf.TensorSpecs.

    Args:
        closed: tensors and numpy arrays that the function closes over become captures too, where lifted() says so;
            otherwise only float variables and tensors do.

    Raises:
        InvalidRequestError: it returns no tensor.
    """

    def without_defaults(*arguments: Any) -> Any:  # which tf.function would take for arguments too
        return function(*arguments)

    concrete = tf.function(without_defaults).get_concrete_function(*signature)
    outputs = [(name, tf.convert_to_tensor(leaf)) for name, leaf in _onnx.named_leaves(concrete.structured_outputs, "")]
    if not outputs:
        raise InvalidRequestError("the function returns no tensor")
    handles = {id(variable.handle): variable for variable in concrete.graph.variables}
    shapes = [tuple(leaf.shape) if leaf.shape.rank is not None else () for _, leaf in outputs]
    batch = shapes[0][0] if closed and shapes[0] else None
    captures = [(handles.get(id(outer), outer), inner.op.name) for outer, inner in concrete.graph.captures]
    # Whole numbers stay constants of the graph: they may be shapes and axes.
    captures = [
        (outer, name)
        for outer, name in captures
        if outer.dtype.is_floating or (closed and lifted(_type(outer.dtype), outer.shape, batch))
    ]
    with _quiet():
        _, graph_def = convert_variables_to_constants_v2_as_graph(concrete, lower_control_flow=False)
    if closed:
        captures += _constants(graph_def, {name for _, name in captures}, batch)
    arguments = [tensor.op.name for tensor in concrete.inputs[: len(signature)]]
    placeholders = {name: f"x{index}" for index, name in enumerate(arguments)}
    placeholders.update({name: f"c{index}" for index, (_, name) in enumerate(captures)})
    numbered, names = _numbered(graph_def, placeholders, [leaf.name for _, leaf in outputs])
    scopes = {new[: new.index("_") + 1]: old.rpartition("/")[0] for old, new in names.items() if "_" in new}
    tensors = [_tensor(leaf.name, names) for _, leaf in outputs]
    return Trace(
        numbered,
        [outer for outer, _ in captures],
        list(zip(_onnx.output_names([name for name, _ in outputs]), tensors, strict=True)),
        shapes,
        scopes,
    )


def _type(dtype: Any) -> np.dtype[Any]:
    return np.dtype(dtype.as_numpy_dtype if dtype != tf.resource else object)


def _constants(graph_def: Any, taken: set[str], batch: int | None) -> list[tuple[Any, str]]:
    """(array, node's name) of constants that are data: small tensors and numpy arrays are not captured, but put in."""
    found = []
    for node in graph_def.node:
        if node.op != "Const" or node.name in taken:
            continue
        proto = node.attr["value"].tensor
        dtype, shape = tf.as_dtype(proto.dtype), [axis.size for axis in proto.tensor_shape.dim]
        if dtype == tf.string or (not dtype.is_floating and len(shape) < 2):
            continue
        if lifted(_type(dtype), shape, batch):
            found.append((tf.make_ndarray(proto), node.name))
    return found


def _tensor(name: str, names: Mapping[str, str]) -> str:
    node, _, index = name.partition(":")
    return f"{names[node]}:{index or 0}"


def _numbered(graph_def: Any, placeholders: Mapping[str, str], outputs: Sequence[str]) -> tuple[Any, dict[str, str]]:
    """(what the outputs need, with nodes called by their number, {old name: new}); what is in `placeholders` becomes
    one. Numbers follow from the outputs' paths through the graph, since TensorFlow sorts by names at times."""
    by_name = {node.name: node for node in graph_def.node}
    result = type(graph_def)()
    result.versions.CopyFrom(graph_def.versions)
    result.library.CopyFrom(graph_def.library)
    names: dict[str, str] = {}
    for node in _needed(by_name, [name.partition(":")[0] for name in outputs], placeholders):
        names[node.name] = placeholders.get(node.name, f"n{len(names):05d}_{node.op}")
        new = result.node.add(op=node.op, name=names[node.name])
        if node.name in placeholders:
            _become_placeholder(new, node)
            continue
        new.input.extend(_reference(reference, names) for reference in node.input if not reference.startswith("^"))
        for key, value in node.attr.items():
            if key not in ("_class", "_output_shapes", "_gradient_op_type"):
                new.attr[key].CopyFrom(value)
    return result, names


def _needed(by_name: Mapping[str, Any], outputs: Sequence[str], placeholders: Mapping[str, str]) -> Iterator[Any]:
    """Nodes that the outputs depend on, each after its inputs; control inputs order effects, which are not exported."""
    done: set[str] = set()
    stack = [(name, False) for name in reversed(outputs)]
    while stack:
        name, ready = stack.pop()
        if name in done:
            continue
        node = by_name[name]
        if ready or name in placeholders:
            done.add(name)
            yield node
            continue
        stack.append((name, True))
        inputs = [reference.partition(":")[0] for reference in node.input if not reference.startswith("^")]
        stack.extend((each, False) for each in reversed(inputs))


def _reference(reference: str, names: Mapping[str, str]) -> str:
    node, colon, index = reference.partition(":")
    return f"{names[node]}{colon}{index}"


def _node_of(reference: str) -> str:
    return reference.partition(":")[0]


def _made_by(node: Any, op: str, nodes: Mapping[str, Any], depth: int = 4) -> bool:
    if node.op == op:
        return True
    return (
        depth > 0
        and node.op in (*_PASSED, *_STOPS)
        and any(_made_by(nodes[_node_of(reference)], op, nodes, depth - 1) for reference in node.input)
    )


def _used_by(node: Any, ops: Sequence[str], users: Mapping[str, Sequence[Any]]) -> bool:
    found = users.get(node.name, [])
    return bool(found) and all(
        user.op in ops or user.op == "Shape" or (user.op in _PASSED and _used_by(user, ops, users)) for user in found
    )


def _become_placeholder(new: Any, node: Any) -> None:
    new.op = "Placeholder"
    new.attr["dtype"].type = node.attr["dtype"].type
    constant = node.op == "Const"
    shape = node.attr["value"].tensor.tensor_shape if constant else node.attr["shape"].shape
    new.attr["shape"].shape.CopyFrom(shape)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what exporters tell about their own age and habits off the user's screen."""
    loggers = [logging.getLogger(name) for name in ("tensorflow", "tf2onnx")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
