"""`jacserve.jacobian`: from a model and a batch to a Jacobian.

In: what a user has. Out: a Jacobian, after the server has accepted the request.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jacserve import model as models
from jacserve.connection import Server
from jacserve.errors import InvalidRequestError, RowsOutOfRangeError
from jacserve.functional import Functional
from jacserve.header import HeaderChecker
from jacserve.jacobian import Jacobian
from jacserve.progress import ProgressSetting, step
from jacserve.ranges import Range
from jacserve.receive import receive_header
from jacserve.request import Prepared, Request, prepare
from jacserve.row_source import RowSource
from jacserve.servers import server_for
from jacserve.sizes import parse_size
from jacserve.targets import Outputs, Pairwise, Target

HEADER_STEP = "sending what the server lacks, and computing the target's value"
RowsSetting = tuple[int, int] | range | slice | None


@dataclass(frozen=True)
class Asked:
    """A caller's arguments, checked."""

    prepared: Prepared
    functional: Functional
    rows: Range | None
    memory_limit: int


def _rows_of(rows: RowsSetting) -> Range | None:
    if rows is None:
        return None
    if isinstance(rows, (range, slice)):
        if rows.step not in (None, 1) or rows.stop is None:
            raise InvalidRequestError(f"rows={rows!r}; it must be (begin, end)")
        rows = (rows.start or 0, rows.stop)
    begin, end = int(rows[0]), int(rows[1])
    if not 0 <= begin <= end:
        raise InvalidRequestError(f"rows={(begin, end)}; it must be (begin, end) with 0 <= begin <= end")
    return begin, end


def _strings(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def ask(
    model: Any,
    x: Any,
    target: Target | None,
    wrt: str | Sequence[str] | None,
    wrt_inputs: str | Sequence[str] | bool,
    weights: Any,
    shared_inputs: Mapping[str, Any] | None,
    precision: str | None,
    rows: RowsSetting,
    method: str | None,
    memory_limit: int | str,
    progress: ProgressSetting,
) -> Asked:
    """Exports, checks and digests; nothing is sent."""
    if target is not None and not isinstance(target, (Outputs, Pairwise)):
        raise InvalidRequestError("target= takes jacserve.outputs(...) or jacserve.pairwise(...)")
    target = target or Outputs()
    with step("exporting the model, once for each architecture", progress):
        functional = models.to_functional(model, x, weights=weights, shared_inputs=shared_inputs, method=method)
    if isinstance(wrt_inputs, bool):
        wrt_inputs = list(functional.inputs) if wrt_inputs else ()
    request = Request(
        functional.graph,
        functional.inputs,
        functional.weights,
        models.second_batch(functional, target.y) if isinstance(target, Pairwise) else {},
        functional.shared_inputs,
        target,
        _strings(wrt),
        _strings(wrt_inputs),
        precision or functional.precision,
    )
    limit = parse_size(memory_limit, "memory_limit")
    return Asked(prepare(request, functional.names_to_layers), functional, _rows_of(rows), limit)


def jacobian_of(server: Server, asked: Asked, header: HeaderChecker, progress: ProgressSetting) -> Jacobian:
    """After the header has arrived. RowsOutOfRangeError: rows that the target does not have."""
    layout = header.layout
    assert layout is not None
    if asked.rows is not None and asked.rows[1] > layout.target_rows:
        raise RowsOutOfRangeError(
            f"rows {asked.rows[0]}:{asked.rows[1]} were asked for, but the target {list(layout.target_shape)} has "
            f"{layout.target_rows} rows"
        )
    for notice in layout.notices if asked.functional.named_by_caller else ():
        warnings.warn(notice, stacklevel=3)
    value = np.frombuffer(header.value, layout.value_dtype).reshape(layout.target_shape)
    whole = header.whole.arrays if header.whole is not None else None
    source = RowSource(server, asked.prepared, layout, asked.memory_limit, progress, whole)
    return Jacobian(source, value, asked.rows, asked.functional)


def jacobian(
    model: Any,
    x: Any,
    *,
    target: Target | None = None,
    wrt: str | Sequence[str] | None = None,
    wrt_inputs: str | Sequence[str] | bool = (),
    weights: Any = None,
    shared_inputs: Mapping[str, Any] | None = None,
    precision: str | None = None,
    rows: RowsSetting = None,
    server: Server | str | None = None,
    method: str | None = None,
    memory_limit: int | str = "256MiB",
    progress: ProgressSetting = None,
) -> Jacobian:
    """The Jacobian of a model's outputs, or of similarities of pairs of two batches, with respect to its parameters or
    inputs. Model and batches are uploaded where the server lacks them, and the target's value is computed; rows are
    computed when they are asked for, unless all of them together are under 1 MiB.

    Args:
        model: a path of an .onnx file, its bytes, an onnx.ModelProto; or a Keras or torch model, or a pair (JAX
            function, parameters).
        x: the batch, samples along axis 0: an array, a tuple of arrays, or a dict of arrays by input name.
        target: jacserve.outputs(name), the default, or jacserve.pairwise(y, ...).
        wrt: parameters to differentiate with respect to, by name or pattern (* ? []). None: all parameters; or none
            when wrt_inputs is given.
        wrt_inputs: names of inputs to differentiate with respect to; True: all of the batch. An input's block has shape
            target shape + shape of the whole batch. For pairs there are two, "x" and "second.x"; naming the latter
            gives it alone.
        weights: values of the parameters by name, where an ONNX graph takes them as inputs; a dict of arrays, or the
            path of an .npz or .safetensors file. Of names that the graph lacks a warning tells.
        shared_inputs: inputs that are the same for every sample, by name.
        precision: "fp32"; "fp64"; "fp16" or "bf16", which keep values between operators in 16 bits, rows in float32;
            "tf32", on GPU workers only, which rounds the factors of matrix products. None: "fp64" for a live model
            with parameters in float64, else "fp32".
        rows: (begin, end), range or slice: only these rows of the flattened target. The Jacobian then has shape
            (end - begin,), counted from begin.
        server: from jacserve.connect or jacserve.local, or "HOST:PORT". None: that of JACSERVE_SERVER, else a local one
            that is started on first use and ends with this process.
        method: of a live model, when it is not its call: its name, such as "representation".
        memory_limit: bytes or "256MiB": what slicing and batches() may hold besides their results.
        progress: True, False, or a function of (rows done, rows in all, bytes done). None: as JACSERVE_PROGRESS says,
            else a bar where someone looks. The bar is tqdm's where that is installed.

    Raises:
        InvalidRequestError: the model or an argument is wrong. UnsupportedOperatorError: the model uses operators that
        jacserve lacks, all named. UnavailableError: no server. ProgramNotFoundError: none can be started.
        RowsOutOfRangeError, ResourceError, VersionMismatchError, AccessError: as they say.
    """
    asked = ask(
        model, x, target, wrt, wrt_inputs, weights, shared_inputs, precision, rows, method, memory_limit, progress
    )
    chosen = server_for(server)
    with step(HEADER_STEP, progress):
        header = receive_header(chosen, asked.prepared, asked.rows)
    return jacobian_of(chosen, asked, header, progress)
