"""A private server is found, started, reused, and never outlives the process that started it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import jacserve
from golden import Case
from jacserve.local_server import PROGRAM, find_program
from processes import alive, descendants, environment, wait_until


def start(code: str) -> subprocess.Popen[str]:
    """A Python process; its first line of output comes when the code has printed it."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ends_all(processes: list[int]) -> None:
    assert len(processes) >= 3  # guard, coordinator, worker
    wait_until(lambda: not any(alive(process) for process in processes), "its processes end", 20)


def test_close_ends_its_processes_and_removes_its_files() -> None:
    local = jacserve.local(1)
    processes = [local._guard.pid, *descendants(local._guard.pid)]
    assert len(local.workers()) == 1
    local.close()
    ends_all(processes)
    assert not Path(local._folder).exists()
    local.close()  # again does no harm


START = """
    import os, sys, jacserve
    local = jacserve.local(1)
    print(local._folder, flush=True)
"""
ENDINGS = {
    "killed": (START + "    sys.stdin.read()", signal.SIGKILL),
    "terminated": (START + "    sys.stdin.read()", signal.SIGTERM),
    "interrupted": (START + "    sys.stdin.read()", signal.SIGINT),
    "at its end": (START, None),
    "by an exception": (START + "    raise RuntimeError", None),
    "without cleaning up": (START + "    os._exit(3)", None),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_it_ends_with_its_process(ending: str) -> None:
    code, sent = ENDINGS[ending]
    process = start(code.replace("print(", "sys.stderr = open(os.devnull, 'w'); print("))
    folder = Path(first_line(process))
    if sent is not None:
        processes = descendants(process.pid)
        process.send_signal(sent)
        ends_all(processes)
    process.wait(30)
    wait_until(lambda: not folder.exists(), "its folder is removed", 20)


def test_it_ends_with_a_killed_process_whose_child_holds_the_pipe() -> None:
    """As a forked child does; one that is started anew, since gRPC does not survive every fork."""
    process = start(
        START
        + """
    import subprocess
    pipe = local._guard.stdin.fileno()
    print(subprocess.Popen(["sleep", "600"], pass_fds=[pipe]).pid, flush=True)
    sys.stdin.read()
    """
    )
    first_line(process)
    child = int(first_line(process))
    processes = [other for other in descendants(process.pid) if other != child]
    process.kill()
    ends_all(processes)
    assert alive(child)
    os.kill(child, signal.SIGKILL)
    process.wait()


def test_it_outlives_the_thread_that_started_it() -> None:
    process = start(
        """
        import threading, time, jacserve
        thread = threading.Thread(target=lambda: jacserve.servers.server_for(None))
        thread.start()
        thread.join()
        time.sleep(0.5)
        print(jacserve.servers.server_for(None).info().workers_ready, flush=True)
        """
    )
    assert int(first_line(process)) >= 1
    process.communicate()


def test_one_is_started_on_first_use_and_reused(mlp: Case) -> None:
    process = start(
        """
        import numpy as np, jacserve
        from golden import Case
        case = Case("mlp_tanh")
        first, second = case.jacobian(None), case.jacobian(None)
        print(first.server is second.server, first.server.address, np.linalg.norm(first.rows()["2.bias"]), flush=True)
        """
    )
    same, address, norm = first_line(process).split()
    assert same == "True"
    assert address.startswith("127.0.0.1:")
    assert float(norm) == pytest.approx(np.linalg.norm(mlp.expected["2.bias"]), rel=1e-5)
    process.communicate()
    assert process.returncode == 0


@pytest.mark.usefixtures("nothing_is_small")
def test_a_coordinator_that_dies_is_said_and_replaced(mlp: Case) -> None:
    local = jacserve.local(1)
    jac = mlp.jacobian(local)
    os.kill(descendants(local._guard.pid)[0], signal.SIGKILL)
    local._guard.wait(20)
    with pytest.raises(jacserve.ServerError, match="ended unexpectedly"):
        jac.rows()
    assert not local.usable
    local.close()


def test_programs_are_found_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bin_folder: Path) -> None:
    wheel, path, chosen = tmp_path / "site/jacserve_server", tmp_path / "path", tmp_path / "chosen"
    for folder in (wheel / "bin", path, chosen):
        folder.mkdir(parents=True)
        shutil.copy("/bin/true", folder / PROGRAM)
    (wheel / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PATH", str(path), prepend=os.pathsep)
    monkeypatch.setenv("JACSERVE_BIN", str(chosen))
    assert find_program() == chosen / PROGRAM
    monkeypatch.delenv("JACSERVE_BIN")
    assert find_program() == wheel / "bin" / PROGRAM
    (wheel / "bin" / PROGRAM).unlink()
    assert find_program() == path / PROGRAM


@pytest.mark.parametrize("arguments", [{"workers": 0}, {"workers": "two"}, {"device": "tpu"}, {"memory_budget": "-1"}])
def test_wrong_arguments_are_said(arguments: dict[str, object]) -> None:
    with pytest.raises(jacserve.InvalidRequestError):
        jacserve.local(**arguments)  # type: ignore[arg-type]


def test_a_program_that_cannot_run_is_said_with_its_last_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / PROGRAM
    program.write_text("#!/bin/sh\necho no such library >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("JACSERVE_BIN", str(tmp_path))
    with pytest.raises(jacserve.UnavailableError, match="no such library"):
        jacserve.local(1)


def test_the_module_tells_what_is_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jacserve", "info"], env=environment(), capture_output=True, text=True, check=True
    )
    assert f"jacserve {jacserve.__version__}" in done.stdout
    assert "ready" in done.stdout
