"""A Jacobian as one .safetensors file.

In: a Jacobian. Out: the file, complete; until then PATH.part at its final size beside PATH.part.json, the record of
rows that are durable. The header is written first, so nothing is held.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jacserve.arrays import raw_bytes
from jacserve.errors import PreconditionError
from jacserve.ranges import RangeSet
from jacserve.writers.fill import fill
from jacserve.writers.part_file import PartFile, file_error, lock_or_raise, sync_folder
from jacserve.writers.record import Record, RecordingSink, is_finished, read_done

if TYPE_CHECKING:
    from jacserve.jacobian import Jacobian

_VALUE = "target.value"
_DTYPES = {"<f4": "F32", "<f8": "F64"}
_MAX_HEADER_BYTES = 100_000_000  # as safetensors itself


class _Plan:
    """The file's header, and where in the data each tensor begins."""

    def __init__(self, jac: Jacobian) -> None:
        value_name = _VALUE
        while value_name in jac.blocks:
            value_name += "_"
        tensors: list[tuple[str, Any, tuple[int, ...], int]] = [
            (block.name, block.dtype, block.shape, block.nbytes) for block in jac.blocks.values() if block.connected
        ]
        tensors.append((value_name, jac.value.dtype, jac.target_shape, jac.value.nbytes))
        tensors.sort(key=lambda tensor: -tensor[1].itemsize)  # the wide ones first keeps all aligned
        self.begins: dict[str, int] = {}
        self.nbytes = 0
        entries: dict[str, Any] = {"__metadata__": _metadata(jac)}
        for name, dtype, shape, nbytes in tensors:
            self.begins[name] = self.nbytes
            offsets = [self.nbytes, self.nbytes + nbytes]
            entries[name] = {"dtype": _DTYPES[dtype.str], "shape": list(shape), "data_offsets": offsets}
            self.nbytes += nbytes
        text = json.dumps(entries, ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        self.header = len(text).to_bytes(8, "little") + text
        self.value_begin = self.begins[value_name]


def _metadata(jac: Jacobian) -> dict[str, str]:
    return {
        "fingerprint": jac.prepared.fingerprint(jac.rows_asked),
        "target_shape": json.dumps(jac.target_shape),
        "row_begin": str(jac.row_range[0]),
        "row_count": str(len(jac)),
        "precision": jac.precision,
        "unconnected": json.dumps([block.name for block in jac.blocks.values() if not block.connected]),
    }


def write_safetensors(jac: Jacobian, path: str | os.PathLike[str], streams: int, overwrite: bool) -> None:
    """ResourceError: no room. PreconditionError: another run writes it, or another request's result or rows are there
    and not to be overwritten."""
    final = Path(path)
    if final.is_dir():
        raise PreconditionError(f"{final} is a folder")
    fingerprint = jac.prepared.fingerprint(jac.rows_asked)
    if final.exists() and is_finished(final, _read_metadata(final), fingerprint, overwrite):
        return
    part_path = final.with_name(final.name + ".part")
    record_path = final.with_name(final.name + ".part.json")
    plan = _Plan(jac)
    record = Record(fingerprint, jac.row_range, {part_path.name: len(plan.header) + plan.nbytes})
    if not read_done(record_path, record, part_path.parent, overwrite) and part_path.exists():
        _remove_unlocked(part_path)
    part = PartFile(part_path, plan.header, plan.nbytes)
    try:
        part.lock()
        if not part.is_at_its_path():
            raise PreconditionError(f"{part_path}: another run has just ended there", "call it again")
        record.done = read_done(record_path, record, part_path.parent, overwrite) if part.existed else RangeSet()
        part.write(plan.value_begin, raw_bytes(jac.value))
        first = jac.row_range[0]
        blocks = list(jac.blocks.values())
        parts = [part if block.connected else None for block in blocks]
        offsets = [plan.begins.get(block.name, 0) - first * block.row_nbytes for block in blocks]
        fill(jac, RecordingSink(record, record_path, parts, offsets), record.done, streams)
        try:
            part_path.replace(final)
            record_path.unlink(missing_ok=True)
            sync_folder(final.parent)
        except OSError as error:
            raise file_error(error, final, "cannot be put in place") from error
    finally:
        part.close()


def _read_metadata(path: Path) -> dict[str, str] | None:
    """None: not a safetensors file, or without metadata."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            found = json.loads(file.read(size)) if size <= _MAX_HEADER_BYTES else {}
        return dict(found["__metadata__"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remove_unlocked(path: Path) -> None:
    """What another request left; PreconditionError when that one still runs."""
    with path.open("rb") as file:
        lock_or_raise(file.fileno(), path)
        path.unlink()
