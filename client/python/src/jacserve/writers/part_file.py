"""One file being filled: at its final size, written in place wherever pieces belong.

In: its header and size, then pieces at byte positions. Out: a complete file, for its owner to name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from jacserve.errors import InvalidRequestError, JacserveError, PreconditionError, ResourceError
from jacserve.sizes import size_text


def file_error(error: OSError, path: Path, what: str) -> JacserveError:
    """ResourceError for a full disk or quota, InvalidRequestError otherwise."""
    text = f"{path}: {what}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ResourceError(text, "free some space or choose another place, then start again: it goes on from here")
    return InvalidRequestError(text)


class PartFile:
    """Writes may come from several threads."""

    def __init__(self, path: Path, header: bytes, data_nbytes: int) -> None:
        """Opens, or creates with its header and reserves its space; `existed` says which. PreconditionError: holds
        something else."""
        self.path = path
        self._header_nbytes = len(header)
        self.nbytes = len(header) + data_nbytes
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise file_error(error, path, "cannot be created") from error
        self.existed = os.fstat(self._fd).st_size > 0
        try:
            self._prepare(header)
        except BaseException:
            os.close(self._fd)
            raise

    def _prepare(self, header: bytes) -> None:
        if os.fstat(self._fd).st_size == 0:
            try:
                self._reserve()
                os.pwrite(self._fd, header, 0)
            except OSError as error:
                raise file_error(error, self.path, f"no room for its {size_text(self.nbytes)}") from error
        elif os.fstat(self._fd).st_size != self.nbytes or os.pread(self._fd, len(header), 0) != header:
            raise PreconditionError(
                f"{self.path} holds something else than an earlier run left there", "remove it and start again"
            )

    def _reserve(self) -> None:
        """Takes the space now, so that a full disk is known before anything is computed."""
        try:
            os.posix_fallocate(self._fd, 0, self.nbytes)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            os.ftruncate(self._fd, self.nbytes)

    def is_at_its_path(self) -> bool:
        """Nobody has renamed or removed it since it was opened."""
        try:
            return os.path.samestat(os.fstat(self._fd), self.path.stat())
        except OSError:
            return False

    def lock(self) -> None:
        """PreconditionError: another process has it."""
        lock_or_raise(self._fd, self.path)

    def write(self, byte_begin: int, data: memoryview) -> None:
        """Within the data, behind the header. ResourceError: disk full."""
        at = self._header_nbytes + byte_begin
        try:
            while data:
                put = os.pwrite(self._fd, data, at)
                data = data[put:]
                at += put
        except OSError as error:
            raise file_error(error, self.path, "cannot be written") from error

    def sync(self) -> None:
        """Makes what was written durable."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise file_error(error, self.path, "cannot be made durable") from error

    def close(self) -> None:
        os.close(self._fd)


def lock_or_raise(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PreconditionError(f"{path}: another run is writing there; wait for it or choose another") from None


def write_atomically(path: Path, data: bytes) -> None:
    """The file is whole or not there."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise file_error(error, path, "cannot be written") from error


def sync_folder(folder: Path) -> None:
    """Makes renames in it durable, where the file system can."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(fd)
