"""What must hold where nothing but pip has installed jacserve and jacserve-server.

In: names of golden cases; it is run by that environment's Python, beside golden.py and processes.py. Out: "worked", or
a traceback.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import jacserve_server
import numpy as np

import jacserve
from golden import Case
from jacserve import local_server
from processes import descendants

LOADER = "/lib64/ld-linux-x86-64.so.2"
# Of the system's own, what manylinux promises; file names may go on after these.
SYSTEM = ("ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6", "libstdc++.so.6", "libz.so.1")
PROGRAMS = jacserve_server.bin_dir()
LIBRARIES = PROGRAMS.parents[1] / "jacserve_server.libs"


def assert_comes_from_the_wheel(library: str, of: object) -> None:
    path = Path(library)
    assert path.resolve().parent == LIBRARIES or path.name.startswith(SYSTEM), f"{of} takes {library} from the system"


def check_linked_libraries() -> None:
    """As the loader would find them, for every program and library of the wheel."""
    files = [*PROGRAMS.iterdir(), *LIBRARIES.iterdir()]
    assert len(files) > 50
    for file in files:
        listed = subprocess.run([LOADER, "--list", file], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            assert "not found" not in line, f"{file}: {line}"
            if "=>" in line:
                assert_comes_from_the_wheel(line.split()[2], file)


def check_loaded_libraries() -> None:
    """What the running programs have mapped."""
    running = [pid for pid in descendants(os.getpid()) if Path(f"/proc/{pid}/exe").resolve().parent == PROGRAMS]
    assert sorted(Path(f"/proc/{pid}/exe").resolve().name for pid in running) == [
        "jacserve-coordinator",
        "jacserve-worker",
        "jacserve-worker",
    ]
    for pid in running:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            is_code = len(words) == 6 and "x" in words[1] and words[5].startswith("/")
            if is_code and Path(words[5]).resolve().parent != PROGRAMS:
                assert_comes_from_the_wheel(words[5], f"process {pid}")


def check_jacobians(server: jacserve.Server, cases: list[str]) -> None:
    for name in cases:
        for precision, tolerance in (("fp32", 1e-4), ("fp64", 1e-9)):
            case = Case(name)
            jac = case.jacobian(server, precision=precision)
            for block, expected in case.expected.items():
                got = jac.value if block == "value" else np.asarray(jac[block])
                assert got.shape == expected.shape
                limit = max(tolerance * np.abs(expected).max(initial=0), 1e-5 if block == "value" else 1e-12)
                assert np.abs(got - expected).max(initial=0) <= limit, f"{name} {precision} {block}"


def check_a_gpu_is_refused_in_plain_words() -> None:
    try:
        jacserve.local(1, device="cuda").close()
    except jacserve.UnavailableError as error:
        assert "CUDA" in error.message, error.message
        assert "cpu" in error.message, error.message
    else:
        raise AssertionError("a GPU was found by a worker that cannot use one")


def main(cases: list[str]) -> None:
    assert "JACSERVE_BIN" not in os.environ
    assert Path(jacserve.__file__).is_relative_to(sys.prefix), jacserve.__file__
    assert local_server.find_program().parent == PROGRAMS
    assert jacserve_server.__version__ == jacserve.__version__
    start = time.monotonic()
    with jacserve.local(2, memory_budget="256MiB") as server:
        check_jacobians(server, cases)
        check_loaded_libraries()
    print(f"two workers started, computed {len(cases)} cases and ended in {time.monotonic() - start:.1f} s")
    check_linked_libraries()
    check_a_gpu_is_refused_in_plain_words()
    command = Path(sys.executable).parent / "jacserve"
    described = subprocess.run(
        [command, "describe", Case(cases[0]).graph, "--local", "1"], capture_output=True, text=True
    )
    assert described.returncode == 0, described.stderr
    print("worked")


if __name__ == "__main__":
    main(sys.argv[1:])
