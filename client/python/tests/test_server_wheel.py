"""The wheel of the programs, as `make server-wheel` has built it: pip alone gives a working local server.

The wheels are those of JACSERVE_WHEELS, else of build/wheels. The test in an empty Debian is `make server-wheel-test`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from golden import GOLDEN, REPOSITORY

WHEELS = Path(os.environ.get("JACSERVE_WHEELS", REPOSITORY / "build/wheels"))
CASES = ["mlp_tanh", "cnn_maxpool_logsoftmax", "pairwise_keras_cosine"]
HERE = Path(__file__).parent
PYPI_LIMIT_NBYTES = 100_000_000
NOTHING = {"PATH": "", "LC_ALL": "C.UTF-8"}


def wheel_of(name: str) -> Path:
    found = list(WHEELS.glob(f"{name}-*.whl"))
    assert len(found) == 1, f"{found}; `make server-wheel` builds the wheel into {WHEELS}"
    return found[0]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that holds both wheels and what they need."""
    venv = tmp_path_factory.mktemp("server") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile"]
    subprocess.run([*pip, wheel_of("jacserve"), wheel_of("jacserve_server")], check=True)
    return python


def test_the_wheel_is_small_enough_and_carries_the_licences() -> None:
    wheel = wheel_of("jacserve_server")
    assert "-py3-none-manylinux_2_" in wheel.name
    assert wheel.stat().st_size < PYPI_LIMIT_NBYTES
    names = zipfile.ZipFile(wheel).namelist()
    for package in ("libopenblas0-pthread", "libdnnl2", "libgrpc29", "libgomp1", "common-licenses"):
        assert any(f".dist-info/licenses/third_party/{package}/" in name for name in names), package
    assert not [name for name in names if "cuda" in name]


def test_a_local_server_works_where_pip_alone_has_installed_it(python: Path, tmp_path: Path) -> None:
    command = [python, HERE / "installed_check.py", *CASES]
    done = subprocess.run(command, cwd=tmp_path, env=NOTHING, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("worked\n"), done.stdout + done.stderr


def test_code_is_chosen_for_the_processor_at_hand(python: Path) -> None:
    """The bundled libraries can be made to believe in an old processor; ones made for this one could not."""
    code = """
import ctypes, jacserve_server
libraries = jacserve_server.bin_dir().parents[1] / "jacserve_server.libs"
(blas,), (dnn,) = (list(libraries.glob(name)) for name in ("libopenblas*", "libdnnl*"))
blas, dnn = ctypes.CDLL(str(blas)), ctypes.CDLL(str(dnn))
blas.openblas_get_corename.restype = ctypes.c_char_p
print(blas.openblas_get_corename().decode(), dnn.dnnl_get_effective_cpu_isa())
"""
    old = {**NOTHING, "OPENBLAS_CORETYPE": "Prescott", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    done = subprocess.run([python, "-I", "-c", code], env=old, capture_output=True, text=True, check=True)
    assert done.stdout == "Prescott 1\n"


def test_a_worker_beside_a_driver_says_that_the_wheel_has_no_cuda(python: Path, tmp_path: Path) -> None:
    shutil.copy("/lib/x86_64-linux-gnu/libdl.so.2", tmp_path / "libcuda.so.1")  # any library will do
    done = subprocess.run(
        [python.parent / "jacserve-worker", "--list-gpus"],
        env={**NOTHING, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "libjacserve_cuda.so is not installed: the jacserve-server wheel leaves it out" in done.stderr


@pytest.mark.chroot
def test_a_local_server_works_in_an_empty_debian(tmp_path: Path) -> None:
    """Debian's smallest system, Python and pip, and a folder of wheels: no compiler, no library of ours, no setting.

    mmdebstrap makes the system in a temporary folder, runs the check in it and removes it. Its own mount namespace
    keeps whatever it mounts from this machine.
    """
    house, tests = tmp_path / "house", tmp_path / "jacserve"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--dest", house]
    subprocess.run([*pip, wheel_of("jacserve"), wheel_of("jacserve_server")], check=True)
    for name in ("golden.py", "processes.py", "installed_check.py"):
        (tests / "client/python/tests").mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / name, tests / "client/python/tests" / name)
    for case in CASES:
        shutil.copytree(GOLDEN / case, tests / "tests/golden" / case)
    inside = f"""
set -eu
if command -v gcc cc c++ ld make cmake; then exit 1; fi
if find /usr/include -type f | grep .; then exit 1; fi
if find / -xdev -name 'libgrpc*' -o -xdev -name 'libopenblas*' | grep .; then exit 1; fi
python3 -m venv /venv
/venv/bin/pip install -q --no-index --find-links /house 'jacserve[server]'
cd /jacserve/client/python/tests
exec env -i PATH=/venv/bin:/usr/bin:/bin /venv/bin/python installed_check.py {" ".join(CASES)}
"""
    (tmp_path / "inside.sh").write_text(inside)
    hooks = [
        f"copy-in {house} {tests} {tmp_path / 'inside.sh'} /",
        'env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" sh /inside.sh >&2',
    ]
    command = [*(["sudo"] if os.geteuid() else []), "unshare", "--mount", "mmdebstrap", "--variant=minbase"]
    command += [
        "--include=python3,python3-venv",
        *(f"--customize-hook={hook}" for hook in hooks),
        "bookworm",
        "/dev/null",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    print(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "\nworked\n" in done.stderr
