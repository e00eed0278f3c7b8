"""A torch module -> Functional, through torch.export of a function of its parameters.

In: a module, a batch; perhaps the name of a method other than forward. Out: the functional graph. The module is
exported as in evaluation and left as it was. Parameters keep their names; one that is tied to another is that one.
Float buffers are shared inputs, other buffers constants of the graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch.utils import _pytree as pytree

from jacserve.errors import InvalidRequestError
from jacserve.frameworks import _closed, _onnx
from jacserve.frameworks._torch_program import (
    Caller,
    check_stops,
    evaluating,
    export,
    fixed_program,
    key,
    open_program,
    output_nodes,
    output_paths,
    to_numpy,
)
from jacserve.functional import Functional

Arrays = dict[str, NDArray[Any]]


def to_functional(model: Any, x: Any, *, method: str | None = None, params: Any = None) -> Functional:
    """Exports `model`, or takes the export of one that is built alike.

    Args:
        model: a torch.nn.Module.
        x: a batch, samples along axis 0. A tuple holds several arguments, a dict keyword arguments.
        method: what to call instead of forward, as "encode".
        params: tensors in place of the parameters', by name.

    Raises:
        InvalidRequestError: the module has no such method or does not take such a batch.
        UnsupportedOperatorError: an operation has no ONNX form; names it and the module that it came from.
    """
    if method is not None and not callable(getattr(model, method, None)):
        raise InvalidRequestError(f"{type(model).__name__} has no method {method}")
    if any(isinstance(value, torch.nn.parameter.UninitializedParameter) for value in model.parameters()):
        raise InvalidRequestError("the module is lazy and was never called", "call it once on a batch")
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    buffers = {name: value.detach() for name, value in model.named_buffers() if value.is_floating_point()}
    args, kwargs = _arguments(x)
    leaves, structure = pytree.tree_flatten((args, kwargs))
    leaves = [_tensor(leaf, parameters) for leaf in leaves]
    names = _onnx.unique(_input_names(getattr(model, method or "forward"), args, kwargs), [*parameters, *buffers])
    batched = [leaf.dim() > 0 for leaf in leaves]

    caller = Caller(model, method, list(parameters), list(buffers), structure)
    values = [*parameters.values(), *buffers.values()]
    with evaluating(model):
        program = open_program(caller, values, leaves, batched)
        check_stops(program, range(len(parameters), len(values)))
        architecture = key(program, [*parameters, *buffers])
        exported = _onnx.EXPORTS.get(architecture, lambda: export(program, len(values) + len(leaves)))
    every = [*parameters, *buffers, *names]
    there = {every[int(value.name[1:])] for value in exported.graph.input}
    paths = output_paths(program)
    layers = _onnx.layers_of(exported)
    graph = _onnx.name_graph(exported, {f"a{index}": name for index, name in enumerate(every)}, paths)

    data = {name: to_numpy(leaf) for name, leaf in zip(names, leaves, strict=True)}
    shared = {name: to_numpy(value) for name, value in buffers.items()}
    shared.update({name: array for name, array in data.items() if not array.ndim})
    weights = {name: to_numpy(value) for name, value in parameters.items()}

    def flatten_inputs(batch: Any) -> Arrays:
        given = [to_numpy(_tensor(leaf, parameters)) for leaf in pytree.tree_leaves(_arguments(batch))]
        named = _onnx.arrays_by_name(names, given)
        return {name: array for name, array in named.items() if array.ndim and name in there}

    return Functional(
        graph=graph,
        inputs={name: array for name, array in data.items() if array.ndim and name in there},
        weights=weights if params is None else {**weights, **_given(params, parameters)},
        shared_inputs={name: array for name, array in shared.items() if name in there},
        parameter_names=list(parameters),
        unflatten=lambda blocks: {name: blocks.get(name) for name in parameters},
        names_to_layers=layers,
        flatten_inputs=flatten_inputs,
    )


def _arguments(x: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(x, Mapping):
        return (), dict(x)
    return (x if isinstance(x, tuple) else (x,)), {}


def _tensor(leaf: Any, parameters: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """On the CPU; numpy's floats in the parameters' type, since numpy makes float64 where torch makes float32."""
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().cpu()
    tensor = torch.as_tensor(np.ascontiguousarray(leaf))
    floats = [value.dtype for value in parameters.values() if value.is_floating_point()]
    return tensor.to(floats[0]) if floats and tensor.is_floating_point() else tensor


def _given(params: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Arrays:
    result = {}
    for name, value in params.items():
        if name not in parameters:
            raise InvalidRequestError(f"the module has no parameter {name}", f"it has {', '.join(parameters)}")
        result[name] = to_numpy(torch.as_tensor(value).to(parameters[name].dtype))
        if result[name].shape != tuple(parameters[name].shape):
            shape = tuple(parameters[name].shape)
            raise InvalidRequestError(f"{name} has shape {shape}, {result[name].shape} was given")
    return result


def _input_names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    names += [f"x{index}" if len(args) > 1 else "x" for index in range(len(names), len(args))]
    pairs = [*zip(names, args, strict=False), *kwargs.items()]
    return [path for name, value in pairs for path, _ in _onnx.named_leaves(value, name)]


def close(
    function: Callable[..., Any], leaves: list[Any], structure: Any, wrt: list[int], has_aux: bool
) -> tuple[_closed.Closed, Any]:
    """(a function with what it closes over as inputs, the structure of its output).

    Args:
        leaves: tensors and other values of the arguments, whose tree is `structure`.
        wrt: places of the leaves to differentiate with respect to.
        has_aux: the function returns (output, something else).

    Raises:
        InvalidRequestError: torch.export refuses the function. UnsupportedOperatorError: as for to_functional().
    """
    tensors = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    values = [leaves[place].detach().cpu() for place in tensors]
    program = fixed_program(_Function(function, leaves, tensors, structure, has_aux), values)
    check_stops(program)
    shapes = [tuple(node.meta["val"].shape) for node in output_nodes(program)]
    batch = shapes[0][0] if shapes and shapes[0] else None
    module = program.module()
    constants = {
        name: value.detach().cpu()
        for name, value in program.constants.items()
        if isinstance(value, torch.Tensor) and _closed.lifted(to_numpy(value).dtype, value.shape, batch)
    }
    for name, value in constants.items():  # as buffers they may be replaced by arguments
        delattr(module, name)
        module.register_buffer(name, value, persistent=False)

    def export_closed() -> onnx.ModelProto:
        whole = pytree.tree_structure((tuple(values), {}))
        caller = Caller(module, None, [], list(constants), whole)
        every = [*constants.values(), *values]
        return export(fixed_program(caller, every), len(every))

    exported = _onnx.EXPORTS.get(key(program, [], lifted=set(constants)), export_closed)
    arrays = {f"a{index}": to_numpy(value) for index, value in enumerate([*constants.values(), *values])}
    place_of = {place: f"a{len(constants) + index}" for index, place in enumerate(tensors)}
    names = {place_of[place]: f"argument.{place}" for place in wrt}
    outputs = [(f"output.{index}", shape) for index, shape in enumerate(shapes)]
    return _closed.Closed(exported, arrays, names, outputs), program.call_spec.out_spec


class _Function(torch.nn.Module):
    """A function of trees as one of tensors; leaves that are none stay as they are."""

    def __init__(
        self, function: Callable[..., Any], leaves: list[Any], tensors: list[int], structure: Any, has_aux: bool
    ) -> None:
        super().__init__()
        self.function = function
        self.others = {place: leaf for place, leaf in enumerate(leaves) if place not in tensors}
        self.tensors = tensors
        self.structure = structure
        self.has_aux = has_aux

    def forward(self, *values: Any) -> Any:
        every = {**self.others, **dict(zip(self.tensors, values, strict=True))}
        args = pytree.tree_unflatten([every[place] for place in sorted(every)], self.structure)
        result = self.function(*args)
        return result[0] if self.has_aux else result
