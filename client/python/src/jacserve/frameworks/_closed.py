"""A function with everything that it reads as an input of its graph, and its Jacobians in memory.

In: a function that an adapter traced at fixed sizes: its arguments and what it closes over, such as a batch. Out: for
each output of it the Jacobian with respect to the chosen arrays, as numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from jacserve.api import jacobian
from jacserve.connection import Server
from jacserve.frameworks import _onnx
from jacserve.functional import Functional
from jacserve.progress import ProgressSetting
from jacserve.targets import outputs as output_target

Blocks = dict[str, "NDArray[Any] | None"]

_ONE = "jacserve.one"


@dataclass
class Closed:
    """One function.

    Attributes:
        exported: its graph, with inputs called by their keys in `arrays`, as far as they are used.
        arrays: arguments and what is closed over, by graph input.
        wrt: {graph input: name of its block}, in order.
        outputs: (name, shape) of each output.
    """

    exported: onnx.ModelProto
    arrays: dict[str, NDArray[Any]]
    wrt: dict[str, str]
    outputs: list[tuple[str, tuple[int, ...]]]


def lifted(dtype: np.dtype[Any], shape: Sequence[int], batch: int | None) -> bool:
    """Whether an array that is closed over becomes an input, so that another one needs no other export: numbers do, and
    whole numbers when axis 0 is the batch's, since they may be shapes and axes otherwise."""
    return bool(shape) and (dtype.kind == "f" or (dtype.kind in "iub" and shape[0] == batch))


def jacobians(closed: Closed, *, server: Server | str | None = None, progress: ProgressSetting = None) -> list[Blocks]:
    """For each output: {name: array of shape output shape + array shape}, None where the output does not reach it.
    Computed in float64 where an array to differentiate by is.

    Raises:
        What jacserve.jacobian raises.
    """
    result = []
    for name, shape in closed.outputs:
        jac = jacobian(
            _functional(closed, shape),
            None,
            target=output_target(name),
            wrt=[_escaped(block) for block in closed.wrt.values()],
            server=server,
            progress=progress,
        )
        blocks: Blocks = {}
        rows = jac.rows() if any(block.connected for block in jac.blocks.values()) else {}
        for key, block in closed.wrt.items():
            array = rows.get(block)
            blocks[block] = None if array is None else array.reshape((*shape, *closed.arrays[key].shape))
        result.append(blocks)
    return result


def _escaped(name: str) -> str:
    """A name as a pattern that matches it alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _functional(closed: Closed, shape: tuple[int, ...]) -> Functional:
    """The request's parts for an output of this shape. Arrays with as many entries along axis 0 as the output are
    batched; where there is none, the largest one stands for the batch, and the whole of it is one sample."""
    model = onnx.ModelProto()
    model.CopyFrom(closed.exported)
    there = {value.name for value in model.graph.input}
    free = {key: array for key, array in closed.arrays.items() if key in there and key not in closed.wrt}
    batch = shape[0] if shape else None
    batched = [key for key, array in free.items() if array.ndim and array.shape[0] == batch]
    if not batched:
        batched = sorted((key for key in free if free[key].ndim), key=lambda key: -free[key].nbytes)[:1]
    names = dict(zip(free, _onnx.unique((f"input.{key}" for key in free), closed.wrt.values()), strict=True))
    inputs = {names[key]: free[key] for key in batched}
    if not batched:
        _multiply_by_one(model)
        inputs[_ONE] = np.ones(1, np.float32)
    return Functional(
        graph=_onnx.name_graph(model, {**closed.wrt, **names}, [name for name, _ in closed.outputs]),
        inputs=inputs,
        weights={block: closed.arrays[key] for key, block in closed.wrt.items()},
        shared_inputs={names[key]: array for key, array in free.items() if key not in batched},
        parameter_names=list(closed.wrt.values()),
        names_to_layers=_onnx.layers_of(closed.exported),
    )


def _multiply_by_one(model: onnx.ModelProto) -> None:
    """Makes a function of parameters alone one of a batch too: a batch of a single one, whose only sample is all."""
    graph = model.graph
    graph.input.append(onnx.helper.make_tensor_value_info(_ONE, onnx.TensorProto.FLOAT, [1]))
    graph.node.add(op_type="ReduceSum", name="one", input=[_ONE], output=[f"{_ONE}.scalar"]).attribute.append(
        onnx.helper.make_attribute("keepdims", 0)
    )
    for value in graph.output:
        scaled, one = f"{value.name}.scaled", f"{_ONE}.scalar"
        if value.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE:
            one = f"{_ONE}.{value.name}"
            cast = graph.node.add(op_type="Cast", name=f"cast {value.name}", input=[f"{_ONE}.scalar"], output=[one])
            cast.attribute.append(onnx.helper.make_attribute("to", int(onnx.TensorProto.DOUBLE)))
        graph.node.add(op_type="Mul", name=f"scale {value.name}", input=[value.name, one], output=[scaled])
        value.name = scaled


def in_order(blocks: Mapping[str, Any], closed: Closed) -> list[Any]:
    """The blocks in the order of `wrt`."""
    return [blocks[name] for name in closed.wrt.values()]
