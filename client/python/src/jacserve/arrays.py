"""Arrays of any framework as what is uploaded: contiguous little-endian numpy arrays of types that the wire knows.

In: numpy, torch, TensorFlow or JAX arrays, lists. Out: numpy arrays that share memory with them where possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jacserve.errors import InvalidRequestError
from jacserve.wire.messages import enum_number

_ON_THE_WIRE = {
    np.dtype(name): enum_number("DataType", f"DATA_TYPE_{name.upper()}")
    for name in ("float32", "float64", "int32", "int64", "bool")
}
# Other types, and the narrowest known one that holds all of their values.
_WIDENED = {
    "float16": "float32",
    "bfloat16": "float32",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
}


def wire_type(array: NDArray[Any]) -> int:
    return _ON_THE_WIRE[array.dtype]


def to_array(value: Any, what: str) -> NDArray[Any]:
    """C-contiguous, of a type that the wire knows. InvalidRequestError: not numbers; `what` names it there."""
    if hasattr(value, "detach"):  # a torch tensor, perhaps on a device or asked to record gradients
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # numpy has no such type
            value = value.float()
    array = np.asarray(value)
    widened = _WIDENED.get(array.dtype.name)
    if widened is not None:
        array = array.astype(widened)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype not in _ON_THE_WIRE:
        raise InvalidRequestError(f"{what} has type {array.dtype}; it must be float32, float64, int32, int64 or bool")
    # ascontiguousarray makes a scalar one-dimensional; a scalar is contiguous anyway.
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def raw_bytes(array: NDArray[Any]) -> memoryview:
    """The array's memory, uncopied."""
    return array.reshape(-1).view(np.uint8).data


def read_tensor_file(path: str | PathLike[str]) -> dict[str, NDArray[Any]]:
    """Arrays by name from an .npz or .safetensors file. InvalidRequestError: another kind of file."""
    path = Path(path)
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return dict(arrays)
    if path.suffix == ".safetensors":
        try:
            from safetensors.numpy import load_file
        except ImportError as error:
            raise InvalidRequestError(f"{path.name} needs the safetensors package: pip install safetensors") from error
        return dict(load_file(path))
    raise InvalidRequestError(f"weights={str(path)!r}: give a dict of arrays, an .npz or a .safetensors file")


def named_arrays(values: Mapping[str, Any], kind: str) -> dict[str, NDArray[Any]]:
    return {name: to_array(value, f"{kind} '{name}'") for name, value in values.items()}
