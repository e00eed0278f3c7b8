"""Traces of torch functions: made, told apart, and turned into ONNX.

In: a module that takes everything as arguments. Out: an ExportedProgram, the key of its architecture, and its graph
with the layer of each node.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import onnx
import onnxscript
import torch
from numpy.typing import NDArray
from torch.utils import _pytree as pytree

from jacserve.errors import InvalidRequestError
from jacserve.frameworks import _onnx

_TRACED_SAMPLES = 3
"""Samples while tracing: torch takes one sample for a size that stays one."""


class Caller(torch.nn.Module):
    """The module as a function of its parameters and buffers too: nothing is left that could be folded or renamed."""

    def __init__(
        self, module: torch.nn.Module, method: str | None, parameters: list[str], buffers: list[str], structure: Any
    ) -> None:
        super().__init__()
        self.module = module if method is None else _Method(module, method)
        self.names = [name if method is None else f"module.{name}" for name in (*parameters, *buffers)]
        self.structure = structure

    def forward(self, *tensors: Any) -> Any:
        values = dict(zip(self.names, tensors[: len(self.names)], strict=True))
        args, kwargs = pytree.tree_unflatten(list(tensors[len(self.names) :]), self.structure)
        return torch.func.functional_call(self.module, values, args, kwargs)


class _Method(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, method: str) -> None:
        super().__init__()
        self.module = module
        self.method = method

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.module, self.method)(*args, **kwargs)


def to_numpy(tensor: torch.Tensor) -> NDArray[Any]:
    return np.ascontiguousarray(tensor.detach().cpu().numpy())


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """In evaluation mode and without fused encoder layers, which have no ONNX form; then as before."""
    training = [part for part in module.modules() if part.training]
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    module.eval()
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part in training:
            part.training = True


def open_program(caller: torch.nn.Module, values: list[Any], leaves: list[Any], batched: list[bool]) -> Any:
    """torch.export with the batch left open; at the batch's own size where the module does not permit that."""
    sized = [
        leaf.new_empty((_TRACED_SAMPLES, *leaf.shape[1:])) if open_ else leaf
        for leaf, open_ in zip(leaves, batched, strict=True)
    ]
    batch = torch.export.Dim("batch")
    shapes: list[dict[int, Any]] = [{} for _ in values] + [{0: batch} if open_ else {} for open_ in batched]
    with _quiet():
        try:
            return torch.export.export(caller, (*values, *sized), dynamic_shapes=(tuple(shapes),), strict=False)
        except Exception as open_problem:  # torch raises many kinds when a size cannot stay open
            try:
                return torch.export.export(caller, (*values, *leaves), strict=False)
            except Exception as problem:
                raise InvalidRequestError(
                    f"torch.export refuses the module: {_onnx.in_short(problem)}",
                    "control flow that depends on the values of tensors cannot be exported",
                ) from open_problem


def fixed_program(module: torch.nn.Module, values: list[Any]) -> Any:
    try:
        with _quiet():
            return torch.export.export(module, tuple(values), strict=False)
    except Exception as problem:  # torch raises many kinds
        raise InvalidRequestError(f"torch.export refuses the function: {_onnx.in_short(problem)}") from problem


def output_nodes(program: Any) -> list[Any]:
    by_name = {node.name: node for node in program.graph.nodes}
    return [by_name[name] for name in program.graph_signature.user_outputs]


def key(program: Any, names: list[str], lifted: Collection[str] = ()) -> str:
    """Of the traced operations, sizes and constants; parameters and buffers are arguments of them, and so are
    constants that are called `lifted`."""
    shapes = [
        f"{node.name} {node.meta['val'].dtype} {tuple(node.meta['val'].shape)}"
        for node in program.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    ]
    signature = program.graph_signature
    parameters = set(signature.parameters)
    constants = {**program.constants, **{name: program.state_dict.get(name) for name in signature.buffers}}
    contents = [
        f"{name} {_onnx.array_digest(to_numpy(value)) if name not in lifted else tuple(value.shape)}"
        for name, value in constants.items()
        if isinstance(value, torch.Tensor) and name not in parameters and _is_used(program, name)
    ]
    numbers: dict[str, str] = {}  # torch's own names of nodes count on from export to export
    text = re.sub(r"%\w+", lambda found: numbers.setdefault(found[0], f"%{len(numbers)}"), str(program.graph))
    versions = _onnx.versions(torch, onnxscript)
    return _onnx.digest(text, *shapes, *sorted(contents), *names, versions)


def check_stops(program: Any, buffers: Collection[int] = ()) -> None:
    """UnsupportedOperatorError where gradients of something that may be differentiated by are stopped.

    `buffers`: numbers of arguments that nothing is differentiated by.
    """
    names = {name: index for index, name in enumerate(program.graph_signature.user_inputs)}
    reached = set()
    layers = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder":
            smooth = isinstance(value, torch.Tensor) and value.is_floating_point()
            if smooth and names.get(node.name, -1) >= 0 and names[node.name] not in buffers:
                reached.add(node)
        elif reached & set(node.all_input_nodes):
            if _stops(node):
                layers.append(_module_of(node))
            reached.add(node)
    if layers:
        raise _onnx.stopped(layers)


def _stops(node: Any) -> bool:
    name = str(getattr(node.target, "name", lambda: node.target)() if callable(node.target) else node.target)
    return name.startswith("aten::detach") or (
        "set_grad_enabled" in name and False in [arg for arg in node.args if isinstance(arg, bool)]
    )


def _is_used(program: Any, target: str) -> bool:
    signature = program.graph_signature
    holders = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    return any(
        node.op == "placeholder" and holders.get(node.name) == target and node.users for node in program.graph.nodes
    )


def export(program: Any, arguments: int) -> onnx.ModelProto:
    """The graph of a traced program; its inputs are called `a0`, `a1`, ... by the argument's number.

    UnsupportedOperatorError names an operator without an ONNX form and its module.
    """
    try:
        with _quiet():
            exported = torch.onnx.export(program, dynamo=True, external_data=False, verbose=False)
    except Exception as problem:
        raise _refusal(program, problem) from problem
    model: onnx.ModelProto = exported.model_proto
    inputs = list(model.graph.input)
    if len(inputs) != arguments:
        raise AssertionError(f"{len(inputs)} graph inputs for {arguments} arguments")
    number = {value.name: f"a{index}" for index, value in enumerate(inputs)}
    model = onnx.load_from_string(_onnx.name_graph(model, number, [value.name for value in model.graph.output]))
    used = {name for node in model.graph.node for name in node.input} | {value.name for value in model.graph.output}
    unused = [value for value in model.graph.input if value.name not in used]
    for value in unused:
        model.graph.input.remove(value)
    return _onnx.number_nodes(model, _layer_of)


def _layer_of(node: onnx.NodeProto) -> str:
    """Path of the module that a node came from."""
    entries = {entry.key: entry.value for entry in node.metadata_props}
    scopes = entries.get("pkg.torch.onnx.name_scopes", "")
    kinds = entries.get("pkg.torch.onnx.class_hierarchy", "")
    parts = [part.strip(" '\"[]") for part in scopes.split(",")]
    classes = [part.strip(" '\"[]").rpartition(".")[2] for part in kinds.split(",")]
    pairs = zip(parts[:-1], classes, strict=False)
    modules = [(path, kind) for path, kind in pairs if path and not path.startswith("_")]
    if not modules:
        return ""
    path, kind = modules[-1]
    while path.startswith("module") and path.partition(".")[0] == "module":
        path = path.partition(".")[2]
    return f"{path} ({kind})" if path else ""


def _refusal(program: Any, problem: BaseException) -> Exception:
    """The error for what torch.onnx does not translate."""
    words, seen = "", problem
    while seen is not None:
        words += str(seen) + "\n"
        seen = seen.__cause__  # type: ignore[assignment]
    operator = _onnx.first_word_after(r"No ONNX function found for <OpOverload\(op='([^']+)'", words)
    if not operator:
        return InvalidRequestError(f"torch.onnx does not export the module: {_onnx.in_short(problem)}")
    word = operator.rpartition(".")[2].rpartition("_")[2]  # of prims.bessel_i1e, which comes from aten::special_i1e
    layers = [
        _module_of(node)
        for node in program.graph.nodes
        if node.op == "call_function" and re.search(rf"[:_]{word}$", str(getattr(node.target, "name", str)()).lower())
    ]
    return _onnx.unsupported([(operator, ", ".join(dict.fromkeys(filter(None, layers))))])


def _module_of(node: Any) -> str:
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path, kind = stack[-1] if stack else ("", "")
    path = path.removeprefix("module").removeprefix(".")
    return f"{path or 'the module itself'} ({str(kind).rpartition('.')[2].rstrip(chr(39) + '>')})"


def output_paths(program: Any) -> list[str]:
    outputs = program.graph_signature.user_outputs
    spec = program.call_spec.out_spec
    tree = pytree.tree_unflatten(list(range(len(outputs))), spec)
    paths = [".".join(_key_text(key) for key in path) for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    return _onnx.output_names(paths)


def _key_text(key: Any) -> str:
    return str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what exporters tell about their own age and habits off the user's screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
