"""A JAX function of a parameter pytree -> Functional, through jax2onnx.

In: (function, parameters) and a batch. Out: the functional graph. Parameters are the float leaves of the tree, named
by their path as "encoder.layers.0.w"; results are trees of the same shape. Other leaves are constants of the graph.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax2onnx
import numpy as np
import onnx
from jax.extend import core
from numpy.typing import NDArray

from jacserve.errors import InvalidRequestError
from jacserve.frameworks import _closed, _jaxpr, _onnx
from jacserve.functional import Functional

Arrays = dict[str, NDArray[Any]]


def to_functional(model: Any, x: Any, *, method: str | None = None, params: Any = None) -> Functional:
    """Exports a function, or takes the export of one that does the same.

    Args:
        model: function(parameters, *inputs), with `params`; or the tuple (function, parameters).
        x: a batch, samples along axis 0 of each leaf. A tuple holds several arguments, anything else is one.
        method: not for functions.
        params: the parameter tree.

    Raises:
        InvalidRequestError: there are no parameters, or the function does not take such a batch.
        UnsupportedOperatorError: a primitive has no ONNX form; names it and the line that it came from.
    """
    if method is not None:
        raise InvalidRequestError("a JAX function has no methods", "give (function, parameters)")
    function, parameters = model if isinstance(model, tuple) else (model, params)
    parameters = parameters if params is None else params
    if parameters is None:
        raise InvalidRequestError("a JAX function needs its parameters", "give (function, parameters)")
    tree = Tree(parameters)
    arguments = x if isinstance(x, tuple) else (x,)
    paths, structure = jax.tree_util.tree_flatten_with_path(arguments)
    leaves = [array_of(leaf) for _, leaf in paths]
    names = _onnx.unique(_input_names(function, [path for path, _ in paths]), tree.names)

    def flat(*arrays: Any) -> Any:
        count = len(tree.names)
        given = jax.tree_util.tree_unflatten(structure, arrays[count:])
        return function(tree.filled(arrays[:count]), *given)

    traced = Traced(flat, [*tree.arrays, *leaves], open_from=len(tree.names))
    exported = _onnx.EXPORTS.get(traced.key(), traced.export)
    every = [*tree.names, *names]
    final = {f"a{index}": name for index, name in enumerate(every)}
    there = {final[value.name] for value in exported.graph.input}
    graph = _onnx.name_graph(exported, final, traced.outputs)
    data = dict(zip(names, leaves, strict=True))

    def flatten_inputs(batch: Any) -> Arrays:
        given = jax.tree_util.tree_leaves(batch if isinstance(batch, tuple) else (batch,))
        named = _onnx.arrays_by_name(names, [array_of(leaf) for leaf in given])
        return {name: array for name, array in named.items() if array.ndim and name in there}

    return Functional(
        graph=graph,
        inputs={name: array for name, array in data.items() if array.ndim and name in there},
        weights=dict(zip(tree.names, tree.arrays, strict=True)),
        shared_inputs={name: array for name, array in data.items() if not array.ndim and name in there},
        parameter_names=list(tree.names),
        unflatten=tree.unflatten,
        flatten_inputs=flatten_inputs,
    )


class Tree:
    """The float leaves of a pytree by name, and the way back.

    Attributes:
        names: paths of the float leaves, joined with dots; `params` for a bare array.
        arrays: their values.
    """

    def __init__(self, tree: Any) -> None:
        paths, self._structure = jax.tree_util.tree_flatten_with_path(tree)
        self._leaves = [leaf for _, leaf in paths]
        arrays = [array_of(leaf) for leaf in self._leaves]
        self._smooth = [index for index, array in enumerate(arrays) if array.dtype.kind not in "iub"]
        self.arrays = [arrays[index] for index in self._smooth]
        self.names = _onnx.unique(path_text(paths[index][0]) or "params" for index in self._smooth)

    def filled(self, arrays: Sequence[Any]) -> Any:
        """The tree with other values for the float leaves."""
        leaves = list(self._leaves)
        for index, array in zip(self._smooth, arrays, strict=True):
            leaves[index] = array
        return jax.tree_util.tree_unflatten(self._structure, leaves)

    def unflatten(self, blocks: Mapping[str, Any]) -> Any:
        """A tree of blocks; None for a leaf that has none."""
        leaves: list[Any] = [None] * len(self._leaves)
        for index, name in zip(self._smooth, self.names, strict=True):
            leaves[index] = blocks.get(name)
        return jax.tree_util.tree_unflatten(self._structure, leaves)


class Traced:
    """A function of flat arrays, traced with the batch left open, or at its own size where JAX does not permit that.

    Attributes:
        jaxpr: the closed jaxpr.
        outputs: names of the function's outputs by their paths.
    """

    def __init__(self, function: Callable[..., Any], arrays: Sequence[NDArray[Any]], open_from: int) -> None:
        """`open_from`: the first array whose axis 0 is the batch; those of no axes are as they are."""
        self.function = function
        fixed = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        (batch,) = jax.export.symbolic_shape("B")
        self._symbolic = [
            (("B", *array.shape[1:]) if index >= open_from and array.ndim else array.shape)
            for index, array in enumerate(arrays)
        ]
        opened = [
            jax.ShapeDtypeStruct(tuple(batch if size == "B" else size for size in shape), array.dtype)
            for shape, array in zip(self._symbolic, arrays, strict=True)
        ]
        self._types = [array.dtype for array in arrays]
        try:
            traced = jax.make_jaxpr(function, return_shape=True)(*opened)
        except Exception:  # JAX raises many kinds when a size cannot stay open
            self._symbolic = [array.shape for array in arrays]
            with _onnx.refusals("JAX refuses the function"):
                traced = jax.make_jaxpr(function, return_shape=True)(*fixed)
        self.jaxpr, shapes = traced
        _jaxpr.check_stops(self.jaxpr)
        paths = jax.tree_util.tree_flatten_with_path(shapes)[0]
        self.outputs = _onnx.output_names([path_text(path) for path, _ in paths])

    def key(self) -> str:
        return _onnx.digest(_jaxpr.text(self.jaxpr), str(self._symbolic), _onnx.versions(jax, jax2onnx))

    def export(self) -> onnx.ModelProto:
        """The graph; its inputs are called `a0`, `a1`, ... by the array's number. Inputs that nothing uses are gone."""
        specs = [jax.ShapeDtypeStruct(shape, kind) for shape, kind in zip(self._symbolic, self._types, strict=True)]
        double = any(kind == np.float64 for kind in self._types)

        def leaves(*arrays: Any) -> Any:
            found = jax.tree_util.tree_leaves(self.function(*arrays))
            return found[0] if len(found) == 1 else tuple(found)

        try:
            with _quiet():
                model: onnx.ModelProto = jax2onnx.to_onnx(leaves, specs, enable_double_precision=double)
        except Exception as problem:
            raise self._refusal(problem) from problem
        number = {value.name: f"a{index}" for index, value in enumerate(model.graph.input)}
        outputs = [value.name for value in model.graph.output]
        model = onnx.load_from_string(_onnx.name_graph(model, number, outputs))
        used = {name for node in model.graph.node for name in node.input} | set(outputs)
        for value in [value for value in model.graph.input if value.name not in used]:
            model.graph.input.remove(value)
        return _onnx.number_nodes(model, lambda node: "")

    def _refusal(self, problem: Exception) -> Exception:
        name = _onnx.first_word_after(r"primitive '([^']+)'", str(problem))
        if not name:
            return InvalidRequestError(f"jax2onnx does not export the function: {_onnx.in_short(problem)}")
        return _onnx.unsupported([(name, _jaxpr.line_of(self.jaxpr, name))])


def close(
    function: Callable[..., Any], arrays: list[NDArray[Any]], structure: Any, wrt: list[int], has_aux: bool
) -> tuple[_closed.Closed, Any]:
    """(a function with what it closes over as inputs, the structure of its output).

    Args:
        arrays: leaves of the arguments, whose tree is `structure`.
        wrt: places of the arrays to differentiate with respect to.
        has_aux: the function returns (output, something else).

    Raises:
        UnsupportedOperatorError: as for to_functional().
    """

    def output(*leaves: Any) -> Any:
        result = function(*jax.tree_util.tree_unflatten(structure, leaves))
        return result[0] if has_aux else result

    types = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    jaxpr, results = jax.make_jaxpr(output, return_shape=True)(*types)
    leaves, output_structure = jax.tree_util.tree_flatten(results)
    batch = leaves[0].shape[0] if leaves and leaves[0].shape else None
    consts = [np.asarray(const) for const in jaxpr.consts]
    free = [index for index, const in enumerate(consts) if _closed.lifted(const.dtype, const.shape, batch)]

    def closed(*values: Any) -> Any:
        every = dict(enumerate(jaxpr.consts))
        every.update(zip(free, values[len(arrays) :], strict=True))
        filled = core.ClosedJaxpr(jaxpr.jaxpr, [every[index] for index in range(len(consts))])
        return tuple(core.jaxpr_as_fun(filled)(*values[: len(arrays)]))

    inputs = [*arrays, *(np.ascontiguousarray(consts[index]) for index in free)]
    traced = Traced(closed, inputs, open_from=len(inputs))
    exported = _onnx.EXPORTS.get(traced.key(), traced.export)
    outputs = [(f"output.{index}", tuple(leaf.shape)) for index, leaf in enumerate(leaves)]
    names = {f"a{place}": f"argument.{place}" for place in wrt}
    return (
        _closed.Closed(exported, {f"a{index}": array for index, array in enumerate(inputs)}, names, outputs),
        output_structure,
    )


def array_of(leaf: Any) -> NDArray[Any]:
    """A numpy array in the type that JAX would give it: float32 for numpy's float64, unless jax_enable_x64 is set."""
    array = np.asarray(leaf if isinstance(leaf, (np.ndarray, jax.Array)) else jax.numpy.asarray(leaf))
    return np.ascontiguousarray(array, jax.dtypes.canonicalize_dtype(array.dtype))


def path_text(path: Any) -> str:
    """A tree path's keys, joined with dots."""
    return str(jax.tree_util.keystr(path, simple=True, separator="."))


def _input_names(function: Callable[..., Any], paths: Sequence[Any]) -> list[str]:
    """Names of the function's arguments after the parameters; of several arrays in one argument, `name.key`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    result = []
    for path in paths:
        index = path[0].idx
        name = named[index] if index < len(named) else f"x{index}"
        rest = path_text(path[1:])
        result.append(f"{name}.{rest}" if rest else name)
    return result


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what the exporter tells about its work off the user's screen."""
    loggers = [logging.getLogger(name) for name in ("jax2onnx", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
