"""Whatever a caller calls a model, as graph bytes and named arrays.

In: an ONNX path, bytes or ModelProto, or a live model of a framework; a batch. Out: a Functional.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jacserve.arrays import named_arrays, read_tensor_file, to_array
from jacserve.errors import InvalidRequestError, MessageTooLargeError
from jacserve.functional import Functional

if TYPE_CHECKING:
    from onnx import ModelProto

_MAX_GRAPH_BYTES = (1 << 31) - 1  # as large as a protobuf message can be


@dataclass(frozen=True)
class _Graph:
    inputs: tuple[str, ...]  # that have no default value
    fixed: frozenset[str]  # those of them whose shape has no symbol


_read: dict[bytes, _Graph] = {}


def _read_graph(data: bytes) -> _Graph:
    """Input names; parsed once per graph."""
    digest = hashlib.sha256(data).digest()
    if digest not in _read:
        if len(_read) > 64:
            _read.clear()
        import onnx

        try:
            graph = onnx.load_from_string(data).graph
        except Exception as error:  # protobuf's DecodeError, which onnx does not name
            raise InvalidRequestError("the model is not an ONNX file") from error
        defaults = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in defaults]
        fixed = {
            value.name
            for value in inputs
            if all(axis.WhichOneof("value") == "dim_value" for axis in value.type.tensor_type.shape.dim)
        }
        _read[digest] = _Graph(tuple(value.name for value in inputs), frozenset(fixed))
    return _read[digest]


@lru_cache(maxsize=8)
def _load_file(path: str, mtime_ns: int, size: int) -> bytes:
    """The file's bytes, with tensors that lie in files beside it put in."""
    data = Path(path).read_bytes()
    if b"location" not in data:  # no tensor says where it lies
        return data
    import onnx

    model = onnx.load(path, load_external_data=False)
    if not any(t.data_location == onnx.TensorProto.EXTERNAL for t in model.graph.initializer):
        return data
    return serialize(onnx.load(path))


def serialize(model: ModelProto) -> bytes:
    """MessageTooLargeError: over 2 GiB."""
    if model.ByteSize() > _MAX_GRAPH_BYTES:
        raise MessageTooLargeError(
            "the model holds more than 2 GiB", "make its parameters graph inputs, and give them as weights="
        )
    return model.SerializeToString()


def _graph_bytes(model: Any) -> bytes | None:
    """None: not ONNX."""
    onnx = sys.modules.get("onnx")  # it takes a while to import, and who has a ModelProto has imported it
    if onnx is not None and isinstance(model, onnx.ModelProto):
        return serialize(model)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, (str, PathLike)):
        path = Path(model)
        try:
            info = path.stat()
            return _load_file(str(path.absolute()), info.st_mtime_ns, info.st_size)
        except OSError as error:
            raise InvalidRequestError(f"the model {str(path)!r} cannot be read: {error.strerror}") from error
    return None


def name_inputs(batch: Any, names: list[str], kind: str) -> dict[str, NDArray[Any]]:
    """A batch given as one array, a tuple or list of arrays, or a dict by name. InvalidRequestError: another number."""
    if isinstance(batch, Mapping):
        return named_arrays(batch, kind)
    values = list(batch) if isinstance(batch, (tuple, list)) and len(names) > 1 else [batch]
    if len(values) != len(names):
        raise InvalidRequestError(
            f"the model takes {len(names)} inputs ({', '.join(names)}), but {len(values)} are given; "
            "give a dict of arrays by name"
        )
    return {name: to_array(value, f"{kind} '{name}'") for name, value in zip(names, values, strict=True)}


def _weights_of(weights: Any) -> dict[str, NDArray[Any]]:
    if weights is None:
        return {}
    if isinstance(weights, (str, PathLike)):
        weights = read_tensor_file(weights)
    return named_arrays(weights, "weight")


def _from_onnx(data: bytes, x: Any, weights: Any, shared_inputs: Mapping[str, Any] | None) -> Functional:
    values, shared = _weights_of(weights), named_arrays(shared_inputs or {}, "shared input")
    if isinstance(x, Mapping):
        return Functional(data, named_arrays(x, "input"), values, shared, list(values), named_by_caller=True)
    graph = _read_graph(data)
    names = [name for name in graph.inputs if name not in values and name not in shared]
    # A functional graph whose weights were forgotten: its parameters have fixed shapes, its batches do not.
    symbolic = [name for name in names if name not in graph.fixed]
    forgotten = [name for name in names if name in graph.fixed] if symbolic and len(names) > 1 else []
    if forgotten and not isinstance(x, (tuple, list)):
        if not values:
            raise InvalidRequestError(
                f"the graph's inputs {', '.join(forgotten)} have no value", "give parameters by name with weights="
            )
        names = symbolic  # some were given, perhaps under wrong names: the server says which
    return Functional(data, name_inputs(x, names, "input"), values, shared, list(values), named_by_caller=True)


def to_functional(
    model: Any,
    x: Any,
    *,
    weights: Any = None,
    shared_inputs: Mapping[str, Any] | None = None,
    method: str | None = None,
) -> Functional:
    """Any model. InvalidRequestError: not one, or its inputs do not fit; what adapters raise for live models."""
    data = _graph_bytes(model)
    if data is not None:
        if method is not None:
            raise InvalidRequestError("method= is for live models; an ONNX graph has one function")
        return _from_onnx(data, x, weights, shared_inputs)
    frameworks = import_module("jacserve.frameworks")  # not before a live model needs it
    functional: Functional = frameworks.to_functional(model, x, method=method)
    if any(array.dtype == np.float64 for array in functional.weights.values()):
        functional.precision = "fp64"
    functional.weights.update(_weights_of(weights))
    functional.named_by_caller = weights is not None
    functional.shared_inputs.update(named_arrays(shared_inputs or {}, "shared input"))
    return functional


def second_batch(functional: Functional, y: Any) -> dict[str, NDArray[Any]]:
    """The second batch of a pairwise target, given as the first was; in its types where they fit without loss."""
    if functional.flatten_inputs is not None:
        return named_arrays(functional.flatten_inputs(y), "second input")
    arrays = name_inputs(y, list(functional.inputs), "second input")
    for name, array in arrays.items():
        first = functional.inputs.get(name)
        if first is not None and first.dtype != array.dtype and np.can_cast(array.dtype, first.dtype, "safe"):
            arrays[name] = array.astype(first.dtype)
    return arrays
