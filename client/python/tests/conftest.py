"""What the tests share: real programs, golden cases, one private server for all.

Programs come from JACSERVE_BIN, else from the build folder of the repository that this file lies in.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import jacserve
from golden import REPOSITORY, Case
from jacserve import header

os.environ.setdefault("JACSERVE_BIN", str(REPOSITORY / "build/release/bin"))
os.environ.setdefault("JACSERVE_PROGRESS", "0")
os.environ.pop("JACSERVE_SERVER", None)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background ignores, in children too


@pytest.fixture(scope="session")
def server() -> Iterator[jacserve.LocalServer]:
    with jacserve.local(2, memory_budget="512MiB") as local:
        yield local


@pytest.fixture
def mlp() -> Case:
    """5 samples, 4 inputs, 3 outputs: 15 rows."""
    return Case("mlp_tanh")


@pytest.fixture(scope="session")
def long_jacobian(server: jacserve.LocalServer) -> jacserve.Jacobian:
    """1,800 rows of a small network, in many tiles; they travel when they are asked for."""
    case = Case("mlp_tanh")
    x = np.random.default_rng(7).standard_normal((600, 4), dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(header, "SMALL_NBYTES", 0)
        return jacserve.jacobian(case.graph, x, weights=case.weights, server=server)


@pytest.fixture
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows travel when they are asked for, however few they are."""
    monkeypatch.setattr(header, "SMALL_NBYTES", 0)


@pytest.fixture(scope="session")
def bin_folder() -> Path:
    return Path(os.environ["JACSERVE_BIN"])
