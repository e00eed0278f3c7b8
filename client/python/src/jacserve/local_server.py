"""A private server on this machine: started when needed, ended with this process, whatever ends it.

In: how many workers, of which kind. Out: a running coordinator's address, as a Server.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jacserve import errors
from jacserve.connection import Server
from jacserve.sizes import parse_size

PROGRAM = "jacserve-coordinator"
START_SECONDS = 30.0
END_SECONDS = 12.0
_POLL_SECONDS = 0.01
_LAST_LINES = 6
_DEVICES = ("auto", "cpu", "cuda", "reference")
_PERCENT = re.compile(r"(100|[1-9][0-9]?)%")


def _folders() -> list[Path]:
    """Where programs may be, first come first."""
    folders = []
    if os.environ.get("JACSERVE_BIN"):
        folders.append(Path(os.environ["JACSERVE_BIN"]))
    try:
        import jacserve_server
    except ImportError:
        pass
    else:
        folders += [Path(path) / "bin" for path in jacserve_server.__path__]
    return folders + [Path(path) for path in os.environ.get("PATH", "").split(os.pathsep) if path]


def find_program(name: str = PROGRAM) -> Path:
    """JACSERVE_BIN, then the jacserve-server package, then PATH. ProgramNotFoundError: in none of them."""
    for folder in _folders():
        program = folder / name
        if program.is_file() and os.access(program, os.X_OK):
            return program.absolute()
    raise errors.ProgramNotFoundError(
        f"no server is given, and {name} was found neither in JACSERVE_BIN nor in the jacserve-server package nor on "
        "PATH, so none can be started",
        "pip install jacserve[server], or name a server by JACSERVE_SERVER=HOST:PORT or jacserve.connect('HOST:PORT')",
    )


def _arguments(program: Path, folder: str, workers: int | str, device: str, memory_budget: str | None) -> list[str]:
    words = [str(program), "--listen", "127.0.0.1:0", "--port-file", f"{folder}/port", "--state-dir", f"{folder}/state"]
    words += ["--local-workers", str(workers), "--device", device, "--log-level", "warning"]
    return words if memory_budget is None else [*words, "--worker-memory-budget", memory_budget]


class LocalServer(Server):
    """A Server whose coordinator and workers are this process's own; close() ends them.

    They also end when this process does, by a guard that watches it: even when it is killed, and whichever thread
    started them.
    """

    def __init__(
        self, workers: int | str = "auto", device: str = "auto", memory_budget: int | str | None = None
    ) -> None:
        """
        Args:
            workers: worker processes, 1 to 1024; "auto": one for each GPU, or as many as the cores carry.
            device: "auto" (GPUs where there are any), "cpu", "cuda" or "reference" (plain loops, for comparison).
            memory_budget: of each worker, bytes or as "2GiB", of a GPU also as "80%" of what is free when it starts.
                None: 2 GiB, of a GPU 80%.

        Raises:
            InvalidRequestError: none of these.
            ProgramNotFoundError: the programs are not installed.
            UnavailableError: they do not come up; their last words say why.
        """
        if workers != "auto" and not (isinstance(workers, int) and 1 <= workers <= 1024):
            raise errors.InvalidRequestError(f"workers={workers!r}; it must be a number from 1 to 1024, or 'auto'")
        if device not in _DEVICES:
            raise errors.InvalidRequestError(f"device={device!r}; it must be one of {', '.join(_DEVICES)}")
        budget = None if memory_budget is None else str(memory_budget)
        if budget is not None and not _PERCENT.fullmatch(budget):
            budget = str(parse_size(budget, "memory_budget"))
        program = find_program()
        self._owner = os.getpid()
        self._folder = tempfile.mkdtemp(prefix="jacserve-")
        self._guard = self._start(_arguments(program, self._folder, workers, device, budget))
        atexit.register(self.close)
        try:
            super().__init__(self._wait_for_address())
            self._wait_for_workers(1 if workers == "auto" else int(workers))
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<jacserve.LocalServer {self.address} version {self.version}>"

    def close(self) -> None:
        """Ends the server and its workers, and removes what they stored."""
        if self._owner != os.getpid():
            return  # a forked child: the server is its parent's, and so is the connection
        if hasattr(self, "_channel"):
            super().close()
        atexit.unregister(self.close)
        if self._guard.stdin is not None:
            self._guard.stdin.close()  # asks the guard to end the server and itself
        try:
            self._guard.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the coordinator dies with its guard
            self._guard.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def usable(self) -> bool:
        return super().usable and self._guard.poll() is None

    def _start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise errors.ServerError("this Python does not know its own program, so no local server can be guarded",
                                     "start one by hand and use jacserve.connect('HOST:PORT')")  # fmt: skip
        guard = Path(__file__).with_name("server_guard.py")
        with Path(self._folder, "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(guard), str(self._owner), self._folder, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "TMPDIR": self._folder},
                start_new_session=True,  # the terminal's Ctrl-C is for this process, which then ends them in order
            )

    def _last_words(self) -> str:
        try:
            lines = Path(self._folder, "log").read_text(errors="replace").splitlines()[-_LAST_LINES:]
        except OSError:
            lines = []
        return "".join(f"\n  {line}" for line in lines) or "(none)"

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                text = Path(self._folder, "port").read_text()
            except OSError:
                text = ""
            if text.endswith("\n"):  # the line's end shows that it is complete
                return "127.0.0.1:" + text.strip().rpartition(":")[2]
            if self._guard.poll() is not None:
                raise errors.UnavailableError(f"the local server ended at once; its last words: {self._last_words()}")
            time.sleep(_POLL_SECONDS)
        raise errors.UnavailableError(f"the local server does not answer; its last words: {self._last_words()}")

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            ready = int(self.info().workers_ready)
            if ready >= count:
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
        if ready == 0:
            raise errors.UnavailableError(f"no worker came up; the server's last words: {self._last_words()}")

    def error_of(self, failed: object, layers: object = None) -> Exception:
        error = super().error_of(failed, layers)  # type: ignore[arg-type]
        if isinstance(error, errors.UnavailableError) and self._guard.poll() is not None:
            return errors.ServerError(f"the local server ended unexpectedly; its last words: {self._last_words()}")
        return error
