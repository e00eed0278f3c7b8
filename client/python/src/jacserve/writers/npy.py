"""A Jacobian as a folder: one .npy per block, value.npy, and index.json that says what they are.

In: a Jacobian. Out: complete files, or none and a record in PATH/.part to continue from. Folder, names and record are
those of `jacserve jacobian --out`: either continues what the other left.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jacserve.arrays import raw_bytes
from jacserve.errors import InvalidRequestError, PreconditionError
from jacserve.layout import Shape
from jacserve.writers.file_names import file_stems
from jacserve.writers.fill import fill
from jacserve.writers.part_file import PartFile, file_error, lock_or_raise, sync_folder, write_atomically
from jacserve.writers.record import Record, RecordingSink, is_finished, read_done

if TYPE_CHECKING:
    from jacserve.jacobian import Jacobian

VALUE_FILE = "value.npy"
INDEX_FILE = "index.json"
_PART = ".part"


def npy_header(dtype: np.dtype[Any], shape: Shape) -> bytes:
    """As the command line writes it; numpy's own leaves room to grow."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    pad = 63 - (10 + len(text)) % 64
    return b"\x93NUMPY\x01\x00" + (len(text) + pad + 1).to_bytes(2, "little") + (text + " " * pad + "\n").encode()


def write_npy(jac: Jacobian, path: str | os.PathLike[str], streams: int, overwrite: bool) -> None:
    """ResourceError: no room. PreconditionError: another run writes there, or another request's result or rows are
    there and not to be overwritten. InvalidRequestError: not a folder."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise file_error(error, folder, "cannot be created") from error
    try:
        lock_or_raise(fd, folder)
        _Folder(jac, folder).write(streams, overwrite)
    finally:
        os.close(fd)


class _Folder:
    """One locked result folder."""

    def __init__(self, jac: Jacobian, folder: Path) -> None:
        self.jac = jac
        self.folder = folder
        self.part = folder / _PART
        self.files = [f"{stem}.npy" for stem in file_stems(jac.blocks)]
        self.blocks = list(zip(jac.blocks.values(), self.files, strict=True))

    def write(self, streams: int, overwrite: bool) -> None:
        record = self._record()
        done = read_done(self.part / "progress.json", record, self.part, overwrite)
        if not done:
            if self._is_finished(record.fingerprint, overwrite):
                return
            self._start_anew()
        value = PartFile(
            self.part / VALUE_FILE, npy_header(self.jac.value.dtype, self.jac.target_shape), self._value_nbytes
        )
        parts: list[PartFile | None] = []
        try:
            for block, file in self.blocks:
                header = npy_header(block.dtype, block.shape)
                parts.append(PartFile(self.part / file, header, block.nbytes) if block.connected else None)
            value.write(0, raw_bytes(self.jac.value))
            value.sync()
            record.done = done
            offsets = [-self.jac.row_range[0] * block.row_nbytes for block, _ in self.blocks]
            sink = RecordingSink(record, self.part / "progress.json", parts, offsets)
            fill(self.jac, sink, done, streams)
        finally:
            for part in (value, *parts):
                if part is not None:
                    part.close()
        self._finish()

    @property
    def _value_nbytes(self) -> int:
        return math.prod(self.jac.target_shape) * self.jac.value.dtype.itemsize

    def _record(self) -> Record:
        sizes = {VALUE_FILE: len(npy_header(self.jac.value.dtype, self.jac.target_shape)) + self._value_nbytes}
        for block, file in self.blocks:
            if block.connected:
                sizes[file] = len(npy_header(block.dtype, block.shape)) + block.nbytes
        return Record(self.jac.prepared.fingerprint(self.jac.rows_asked), self.jac.row_range, sizes)

    def _is_finished(self, fingerprint: str, overwrite: bool) -> bool:
        """Whether the answer is there already. PreconditionError: another request's is."""
        path = self.folder / INDEX_FILE
        if not path.exists():
            return False
        index, files = None, []
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            index = json.loads(path.read_text())
            files = [VALUE_FILE, *(block["file"] for block in index["blocks"] if block["file"])]
        finished = is_finished(path, index if files else None, fingerprint, overwrite)
        return finished and all((self.folder / file).exists() for file in files)

    def _start_anew(self) -> None:
        """What another request left unfinished is removed; read_done() permitted it. PreconditionError: a file that no
        result wrote would be replaced."""
        if not self.part.exists():  # else a run may have ended while files got their names
            self._spare_files_of_others()
        try:
            if self.part.exists():
                shutil.rmtree(self.part)
            self.part.mkdir()
        except OSError as error:
            raise InvalidRequestError(f"{self.folder}: cannot be written: {error.strerror}") from error

    def _spare_files_of_others(self) -> None:
        own = set()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            own = {block["file"] for block in json.loads((self.folder / INDEX_FILE).read_text())["blocks"]}
            own.add(VALUE_FILE)
        for file in [VALUE_FILE, *(file for block, file in self.blocks if block.connected)]:
            if file not in own and (self.folder / file).exists():
                raise PreconditionError(
                    f"{self.folder}: holds {file}, which is of no result there and would be replaced",
                    "move it, or choose another folder",
                )

    def _finish(self) -> None:
        """Files get their names, then index.json is written."""
        try:
            with contextlib.suppress(FileNotFoundError):
                (self.folder / INDEX_FILE).unlink()  # that of an earlier result must not describe a mixture
            for file in [VALUE_FILE, *(file for block, file in self.blocks if block.connected)]:
                (self.part / file).replace(self.folder / file)
            sync_folder(self.folder)
        except OSError as error:
            raise file_error(error, self.folder, "files cannot be put in place") from error
        write_atomically(self.folder / INDEX_FILE, self._index().encode())
        shutil.rmtree(self.part, ignore_errors=True)

    def _index(self) -> str:
        jac = self.jac
        value = {"file": VALUE_FILE, "shape": jac.target_shape, "dtype": jac.value.dtype.name}
        index: dict[str, Any] = {
            "fingerprint": jac.prepared.fingerprint(jac.rows_asked),
            "row_begin": jac.row_range[0],
            "row_count": len(jac),
            "target_shape": jac.target_shape,
            "precision": jac.precision,
            "backend": jac.layout.backend,
            "value": value,
            "blocks": [
                {
                    "name": block.name,
                    "file": file if block.connected else None,
                    "shape": block.shape,
                    "parameter_shape": block.parameter_shape,
                    "dtype": block.dtype.name,
                    "status": "connected" if block.connected else "unconnected",
                }
                for block, file in self.blocks
            ],
        }
        return json.dumps(index, indent=1, ensure_ascii=False) + "\n"
