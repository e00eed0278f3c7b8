"""A Jacobian request as a caller states it, checked on this side and turned into what is sent.

In: the graph's bytes, arrays by name, target, what to differentiate with respect to. Out: a spec, and blobs by digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from jacserve.arrays import raw_bytes, wire_type
from jacserve.computed import Computed
from jacserve.errors import InvalidRequestError
from jacserve.layout import PRECISIONS
from jacserve.ranges import Range
from jacserve.targets import Outputs, Pairwise, Target, write_target
from jacserve.wire.messages import JacobianSpec, enum_number

Arrays = Mapping[str, NDArray[Any]]
SECOND = "second."  # before an input's name: its block in the second batch
_MAX_NAME_BYTES = 1024


@dataclass(frozen=True)
class Blob:
    """Bytes that the server may have to be given."""

    label: str  # for errors: "graph", "weight 'conv.kernel'"
    data: memoryview


@dataclass(frozen=True)
class Request:
    """Everything that determines a Jacobian. Arrays are those of `arrays.to_array`."""

    graph: bytes
    inputs: Arrays
    weights: Arrays = field(default_factory=dict)
    second_inputs: Arrays = field(default_factory=dict)
    shared_inputs: Arrays = field(default_factory=dict)
    target: Target = field(default_factory=Outputs)
    wrt: Sequence[str] = ()
    wrt_inputs: Sequence[str] = ()
    precision: str = "fp32"


@dataclass(frozen=True)
class Prepared:
    """What is sent: a JacobianSpec message, and the blobs that it names, each digest once; and what became of it."""

    spec: Any
    blobs: Mapping[bytes, Blob]
    names_to_layers: Mapping[str, str] = field(default_factory=dict)
    computed: Computed = field(default_factory=Computed, compare=False)

    def narrowed_to(self, block: str) -> Prepared:
        """The same request, but for one block alone."""
        spec = JacobianSpec()
        spec.CopyFrom(self.spec)
        is_input = block in spec.wrt.inputs or block.removeprefix(SECOND) in spec.wrt.inputs
        spec.wrt.Clear()
        (spec.wrt.inputs if is_input else spec.wrt.parameters).append(block)
        return Prepared(spec, self.blobs, self.names_to_layers, self.computed)

    def fingerprint(self, rows: Range | None) -> str:
        """Identifies the answer: equal for equal specs and rows, here and in the command line. Hex."""
        data: bytes = self.spec.SerializeToString(deterministic=True)
        if rows is not None:
            data += f"rows {rows[0]}:{rows[1]}".encode()
        return hashlib.sha256(data).hexdigest()


def _check_names(request: Request) -> None:
    seen: set[str] = set()
    kinds = (("weight", request.weights), ("input", request.inputs), ("shared input", request.shared_inputs))
    for kind, arrays in kinds:
        for name in arrays:
            if not name or len(name.encode()) > _MAX_NAME_BYTES:
                raise InvalidRequestError(f"a {kind}'s name is empty or longer than {_MAX_NAME_BYTES} bytes: {name!r}")
            if name in seen:
                raise InvalidRequestError(f"'{name}' is given twice; each name takes one array")
            seen.add(name)


def _check_batch(batch: Arrays, kind: str) -> None:
    sizes = {}
    for name, array in batch.items():
        if array.ndim == 0:
            raise InvalidRequestError(
                f"{kind} '{name}' is a scalar; it needs samples along axis 0",
                "an input that is the same for all samples goes into shared_inputs",
            )
        sizes[name] = array.shape[0]
    if len(set(sizes.values())) > 1:
        raise InvalidRequestError(f"{kind}s have different numbers of samples: {sizes}")


def _check_second(request: Request) -> None:
    if not isinstance(request.target, Pairwise):
        return
    if request.second_inputs.keys() != request.inputs.keys():
        raise InvalidRequestError(
            f"the second batch has inputs {sorted(request.second_inputs)}, the first {sorted(request.inputs)}"
        )
    for name, second in request.second_inputs.items():
        first = request.inputs[name]
        if second.dtype != first.dtype or second.shape[1:] != first.shape[1:]:
            raise InvalidRequestError(
                f"second input '{name}' is {second.dtype} {list(second.shape)}, the first is {first.dtype} "
                f"{list(first.shape)}; only axis 0 may differ"
            )


def _check(request: Request) -> None:
    if not request.inputs:
        raise InvalidRequestError("no input is given")
    if request.precision not in PRECISIONS:
        raise InvalidRequestError(f"precision={request.precision!r}; it must be one of {', '.join(PRECISIONS)}")
    _check_names(request)
    _check_batch(request.inputs, "input")
    _check_batch(request.second_inputs, "second input")
    _check_second(request)
    names = (*request.inputs, *(SECOND + name for name in request.second_inputs), *request.shared_inputs)
    for name in request.wrt_inputs:
        if name not in names:
            listed = ", ".join(f"'{known}'" for known in names)
            raise InvalidRequestError(f"wrt_inputs names '{name}', but the inputs are {listed}")


def prepare(request: Request, names_to_layers: Mapping[str, str] | None = None) -> Prepared:
    """Checks what can be known without the graph, and digests every tensor.

    InvalidRequestError: names given twice, empty or too long; inputs whose first axes differ; a second batch of other
    names or shapes; a wrt input that is not among the inputs; an unknown precision.
    """
    _check(request)
    blobs: dict[bytes, Blob] = {}
    spec = JacobianSpec()

    def add(data: memoryview, label: str) -> bytes:
        digest = hashlib.sha256(data).digest()
        blobs.setdefault(digest, Blob(label, data))
        return digest

    def add_all(arrays: Arrays, kind: str, tensors: Any) -> None:
        for name, array in arrays.items():
            named = tensors.add()
            named.name = name
            named.tensor.dtype = wire_type(array)
            named.tensor.shape.extend(array.shape)
            named.tensor.sha256 = add(raw_bytes(array), f"{kind} '{name}'")

    spec.graph_sha256 = add(memoryview(request.graph), "graph")
    add_all(request.weights, "weight", spec.weights)
    add_all(request.inputs, "input", spec.inputs)
    add_all(request.second_inputs, "second input", spec.second_inputs)
    add_all(request.shared_inputs, "shared input", spec.shared_inputs)
    write_target(request.target, spec.target)
    spec.wrt.SetInParent()  # as the command line does, so that equal requests have equal bytes
    spec.wrt.parameters.extend(request.wrt)
    spec.wrt.inputs.extend(request.wrt_inputs)
    spec.precision = PRECISIONS[request.precision]
    spec.encoding = enum_number("Encoding", "ENCODING_DENSE")
    return Prepared(spec, blobs, dict(names_to_layers or {}))
