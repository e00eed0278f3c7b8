"""A Jacobian as a zarr group: one array per connected block, chunked over the target's axes.

In: a Jacobian. Out: the group at PATH, complete; until then at PATH.part with a record of the rows that are in it.
Rows come in steps whose chunks are complete, so that no chunk is written twice. What a killed process wrote is
continued; zarr does not make files durable, so after a loss of power remove PATH.part.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jacserve.errors import InvalidRequestError
from jacserve.jacobian import batch_rows
from jacserve.layout import Block, Shape
from jacserve.ranges import Range
from jacserve.writers.file_names import file_stems
from jacserve.writers.part_file import file_error, lock_or_raise
from jacserve.writers.record import Record, is_finished, read_done

if TYPE_CHECKING:
    from jacserve.jacobian import Jacobian

_VALUE = "target.value"
_RECORD = "jacserve-progress.json"


def step_shape(target_shape: Shape, rows: int) -> Shape:
    """The largest box of at most `rows` (at least 1) target entries that are neighbours in C order."""
    box = []
    for size in reversed(target_shape):
        take = max(1, min(size, rows))
        box.append(take)
        rows = rows // take if take == size else 1
    return tuple(reversed(box))


def chunk_shape(step: Shape, rows: int) -> Shape:
    """A box of at most `rows` (at least 1) entries whose sides divide those of `step`."""
    box = list(step)
    for axis, size in enumerate(box):
        rest = math.prod(box[axis + 1 :])
        fits = max(1, rows // max(1, rest))
        box[axis] = next(divisor for divisor in range(min(size, fits), 0, -1) if size % divisor == 0)
        if rest <= rows:
            break
    return tuple(box)


def steps_of(target_shape: Shape, step: Shape) -> Iterator[tuple[Range, tuple[slice, ...]]]:
    """Each step's rows and its place in the target, in C order."""
    grid = [range(0, size, side) for size, side in zip(target_shape, step, strict=True)]
    at = 0
    for corner in np.ndindex(*[len(axis) for axis in grid]):
        begins = [axis[number] for axis, number in zip(grid, corner, strict=True)]
        ends = [min(b + side, size) for b, side, size in zip(begins, step, target_shape, strict=True)]
        place = tuple(slice(b, e) for b, e in zip(begins, ends, strict=True))
        count = math.prod(e - b for b, e in zip(begins, ends, strict=True))
        yield (at, at + count), place
        at += count


def write_zarr(jac: Jacobian, path: str | os.PathLike[str], chunk_nbytes: int, overwrite: bool) -> None:
    """PreconditionError: another run writes it, or another request's result or rows are there and not to be
    overwritten. InvalidRequestError: zarr is not installed."""
    try:
        import zarr
    except ImportError as error:
        raise InvalidRequestError("to_zarr needs the zarr package", "pip install jacserve[zarr]") from error
    final = Path(path)
    fingerprint = jac.prepared.fingerprint(jac.rows_asked)
    if final.exists() and is_finished(final, _read_attributes(zarr, final), fingerprint, overwrite):
        return
    part = final.with_name(final.name + ".part")
    try:
        part.mkdir(parents=True, exist_ok=True)
        fd = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise file_error(error, part, "cannot be created") from error
    try:
        lock_or_raise(fd, part)
        _Group(jac, part, chunk_nbytes, zarr).write(overwrite)
        (part / _RECORD).unlink(missing_ok=True)
        if final.exists():
            shutil.rmtree(final)
        part.replace(final)
    except OSError as error:
        raise file_error(error, part, "cannot be written") from error
    finally:
        os.close(fd)


class _Group:
    """One locked group that grows."""

    def __init__(self, jac: Jacobian, part: Path, chunk_nbytes: int, zarr: Any) -> None:
        self.jac = jac
        self.part = part
        self.chunk_nbytes = chunk_nbytes
        self.zarr = zarr
        self.step = step_shape(jac.shape, batch_rows(jac.layout, jac.memory_limit))

    def write(self, overwrite: bool) -> None:
        path = self.part / _RECORD
        # Steps and chunks belong to the request here: rows that are done must be whole chunks.
        shape = json.dumps([self.step, self.chunk_nbytes])
        fingerprint = self.jac.prepared.fingerprint(self.jac.rows_asked) + shape
        record = Record(fingerprint, (0, len(self.jac)), {})
        record.done = read_done(path, record, self.part, overwrite)
        arrays = self._open() if record.done else self._create()
        steps = [(rows, place) for rows, place in steps_of(self.jac.shape, self.step)]
        missing = [(rows, place) for rows, place in steps if not record.done.contains(*rows)]
        places = dict(missing)
        for rows in self.jac.in_batches([rows for rows, _ in missing], len(record.done)):
            place = places[(rows.begin, rows.end)]
            box = tuple(side.stop - side.start for side in place)
            for block, array in arrays:
                values = rows[block.name]
                assert values is not None
                array[place] = values.reshape(box + block.parameter_shape)
            record.done.add(rows.begin, rows.end)
            record.write(path)

    def _blocks(self) -> list[tuple[Block, str]]:
        """Connected blocks and their arrays' names: their own, unless a slash would nest them."""
        stems = file_stems(self.jac.blocks)
        pairs = zip(self.jac.blocks.values(), stems, strict=True)
        return [(block, stem if "/" in block.name else block.name) for block, stem in pairs if block.connected]

    def _open(self) -> list[tuple[Block, Any]]:
        for entry in self.part.rglob("*.partial"):  # chunks that zarr was writing when it was killed
            if entry.is_file():
                entry.unlink()
        group = self.zarr.open_group(str(self.part), mode="r+")
        return [(block, group[name]) for block, name in self._blocks()]

    def _create(self) -> list[tuple[Block, Any]]:
        for entry in self.part.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        group = self.zarr.open_group(str(self.part), mode="w")
        jac = self.jac
        group.attrs["fingerprint"] = jac.prepared.fingerprint(jac.rows_asked)
        group.attrs["target_shape"] = list(jac.target_shape)
        group.attrs["row_begin"] = jac.row_range[0]
        group.attrs["row_count"] = len(jac)
        group.attrs["precision"] = jac.precision
        group.attrs["unconnected"] = [block.name for block in jac.blocks.values() if not block.connected]
        value = _create_array(group, _VALUE, jac.target_shape, jac.target_shape, jac.value.dtype)
        value[...] = jac.value
        arrays = []
        for block, name in self._blocks():
            chunk = chunk_shape(self.step, self.chunk_nbytes // max(1, block.row_nbytes)) + block.parameter_shape
            array = _create_array(group, name, block.shape, chunk, block.dtype)
            array.attrs["name"] = block.name
            arrays.append((block, array))
        return arrays


def _read_attributes(zarr: Any, path: Path) -> dict[str, Any] | None:
    """None: not a zarr group."""
    try:
        return dict(zarr.open_group(str(path), mode="r").attrs)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _create_array(group: Any, name: str, shape: Shape, chunks: Shape, dtype: np.dtype[Any]) -> Any:
    """Uncompressed: floats of a Jacobian hardly compress, and compressing takes longer than computing them."""
    chunks = tuple(max(1, side) for side in chunks)
    if hasattr(group, "create_array"):
        return group.create_array(name, shape=shape, chunks=chunks, dtype=dtype, compressors=None)
    return group.create_dataset(name, shape=shape, chunks=chunks, dtype=dtype, compressor=None)  # zarr 2
