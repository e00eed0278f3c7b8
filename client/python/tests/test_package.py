"""The package as it is shipped: descriptors that match proto/, a typed, clean source, wheels that work elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from golden import GOLDEN, REPOSITORY
from jacserve import _version
from jacserve.wire import messages

PACKAGE = REPOSITORY / "client/python"
# The oldest that are promised to work; the other tests run with the newest.
OLDEST = ["grpcio==1.51.*", "protobuf==4.21.*", "numpy==1.26.*", "onnx==1.14.*", "xxhash==3.0.*"]


def test_descriptors_are_those_of_proto(tmp_path: Path) -> None:
    fresh = tmp_path / "fresh.binpb"
    subprocess.run([sys.executable, PACKAGE / "make_descriptors.py", fresh], check=True)
    shipped = Path(messages.__file__).with_name(messages.DESCRIPTORS)
    read = descriptor_pb2.FileDescriptorSet.FromString
    assert read(shipped.read_bytes()) == read(fresh.read_bytes()), "run client/python/make_descriptors.py"


def test_the_version_is_the_programs_own(bin_folder: Path) -> None:
    done = subprocess.run([bin_folder / "jacserve", "version"], capture_output=True, text=True, check=True)
    assert _version.__version__ in done.stdout


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", ".", "../python_server"], ["ruff", "format", "--check", ".", "../python_server"], ["mypy"]],
    ids=" ".join,
)
def test_the_source_is_clean(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", out, PACKAGE], check=True, capture_output=True)
    return out


def test_sdist_and_wheel_hold_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    (sdist,) = built.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    for needed in ("jacserve/py.typed", "jacserve/wire/jacserve_v1.binpb", "jacserve/server_guard.py"):
        assert needed in names
    assert not [name for name in names if "test" in name]
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("tests/test_package.py") for name in archive.getnames())
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_wheel_works_in_an_empty_environment_with_the_oldest_libraries(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile"]
    subprocess.run([*pip, wheel, *OLDEST], check=True, capture_output=True)
    code = f"""
import grpc, numpy as np, jacserve
assert grpc.__version__.startswith("1.51"), grpc.__version__
assert "venv" in jacserve.__file__
folder = {str(GOLDEN / "mlp_tanh")!r}
x = np.load(folder + "/inputs.npz")["x"]
jac = jacserve.jacobian(folder + "/graph.onnx", x, weights=folder + "/weights.npz")
expected = np.load(folder + "/expected.npz")["0.weight"]
assert np.abs(np.asarray(jac["0.weight"]) - expected).max() < 1e-5
jac.to_npy("out")
import asyncio
async def run():
    again = await jacserve.aio.jacobian(folder + "/graph.onnx", x, weights=folder + "/weights.npz")
    return await again.rows()
assert np.array_equal(asyncio.run(run())["2.bias"].reshape(5, 3, 3), np.load("out/2.bias.npy"))
print("worked")
"""
    settings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert done.stdout == "worked\n", done.stderr
