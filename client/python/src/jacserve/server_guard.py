"""Runs a coordinator for another process and sees to it that it does not outlive that process.

In: `server_guard.py OWNER_PID FOLDER PROGRAM ARGUMENTS...`; standard input is a pipe that the owner holds open. Out:
the program's exit status. The program ends when the owner closes the pipe or dies, however it dies; FOLDER is removed
then. Runs alone, without the rest of the package, so that it starts in milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_END_SECONDS = 4.0
_POLL_SECONDS = 0.01
_POLL_CHILD_MILLISECONDS = 200


def _watch_owner(owner: int) -> int | None:
    """A descriptor that becomes readable when the owner dies; None where the kernel has none.

    The pipe alone would stay open in processes that the owner forked."""
    try:
        return os.pidfd_open(owner)
    except (AttributeError, OSError):
        return None


def _die_with_guard() -> None:
    """In the child before exec: a guard that is killed takes the program along. The guard has a single thread."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(program: subprocess.Popen[bytes]) -> None:
    """First in order; a second signal ends jobs that the first lets run on; then by force."""
    for _ in range(2):
        if program.poll() is not None:
            return
        program.terminate()
        deadline = time.monotonic() + _END_SECONDS
        while program.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    if program.poll() is None:
        program.kill()
        program.wait()


def main(owner: int, folder: str, arguments: list[str]) -> int:
    owner_fd = _watch_owner(owner)
    program = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, preexec_fn=_die_with_guard)
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    if owner_fd is not None:
        poll.register(owner_fd, select.POLLIN)
    if os.getppid() == owner:  # else it died before it could be watched
        while program.poll() is None and not poll.poll(_POLL_CHILD_MILLISECONDS):
            pass
    owner_left = program.poll() is None or os.getppid() != owner
    _end(program)
    if owner_left:
        shutil.rmtree(folder, ignore_errors=True)
    return program.returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
