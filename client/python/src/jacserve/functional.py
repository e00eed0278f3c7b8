"""A live model as a pure function: its graph, and the arrays that go in.

In: what an adapter in `jacserve.frameworks` found in a Keras, torch or JAX model. Out: everything that a request needs,
and the way back from named blocks to the framework's own structure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def _as_they_are(arrays: Mapping[str, Any]) -> Any:
    return dict(arrays)


@dataclass
class Functional:
    """One model, exported once per architecture; only the arrays change between calls.

    Every name is a graph input of `graph`. Arrays are C-contiguous numpy arrays in the framework's own layouts.
    """

    graph: bytes
    """The ONNX file. Parameters are graph inputs, so that no exporter could fold, fuse or drop them."""

    inputs: Arrays
    """Batched inputs by name, samples along axis 0, in the order in which the model takes them."""

    weights: Arrays
    """Value of each parameter by name."""

    shared_inputs: Arrays = field(default_factory=dict)
    """Inputs that are the same for every sample, such as the buffers of a torch module."""

    parameter_names: list[str] = field(default_factory=list)
    """Keys of `weights` in the framework's order."""

    precision: str = "fp32"
    """What is computed in where the caller does not say: fp64 of a live model with parameters in float64."""

    named_by_caller: bool = False
    """Somebody wrote the weights' names, so that one that the graph lacks may be a slip. Of a live model's parameters
    it is one that the output does not need."""

    unflatten: Callable[[Mapping[str, Any]], Any] = _as_they_are
    """Turns {parameter name: anything} into the framework's own structure: a list as of trainable_variables, a dict by
    name, a parameter pytree. A missing name becomes None."""

    names_to_layers: dict[str, str] = field(default_factory=dict)
    """Prefix of an ONNX node's name -> the layer that it came from, for errors that name nodes."""

    flatten_inputs: Callable[[Any], Arrays] | None = None
    """Turns a batch given as `x` was (array, tuple, dict) into arrays by name, as in `inputs`; used for the second
    batch of a pairwise target. None: by the order or names of `inputs`."""
