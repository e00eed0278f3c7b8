"""`python -m jacserve demo`, small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jacserve
from jacserve.demo import build_encoder, seed_jacobian


@pytest.mark.quick
def test_the_demo_computes_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "norms.png"
    command = [sys.executable, "-m", "jacserve", "demo", "--images", "3", "--out", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "9 rows" in done.stdout and "unconnected" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_seed_has_3136_rows_and_a_policy_that_is_not_reached(server: jacserve.LocalServer) -> None:
    jac = seed_jacobian(build_encoder(), 56, server)
    assert jac.shape == (56, 56)
    connected = [block for block in jac.blocks.values() if block.connected]
    assert sum(int(np.prod(block.parameter_shape)) for block in connected) == 1_139_168
    assert sorted(name for name in jac.blocks if jac[name] is None) == ["encoder/policy/bias", "encoder/policy/kernel"]
    assert np.abs(jac.value).max() <= 1 + 1e-6 and np.ptp(jac.value) > 1e-4
