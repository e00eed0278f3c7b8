"""Exports that are kept on disk, and frameworks that are imported only when they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jacserve.frameworks import cache_clear, cache_info, to_functional

pytestmark = pytest.mark.quick


def affine(params: Any, x: Any) -> Any:
    return jnp.cos(x @ params["w"])


def export() -> bytes:
    x = np.ones((2, 3), np.float32)
    return to_functional((affine, {"w": np.ones((3, 2), np.float32)}), x).graph


@pytest.mark.parametrize("damage", [None, b"", b"not an ONNX file"])
def test_an_export_on_disk_outlives_the_process_and_damage(
    damage: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JACSERVE_EXPORT_CACHE", str(tmp_path / "exports"))
    cache_clear()
    first = export()
    (file,) = (tmp_path / "exports").iterdir()
    if damage is not None:
        file.write_bytes(damage)
    cache_clear()
    exports = cache_info().misses
    assert export() == first
    assert cache_info().misses == exports + (damage is not None)
    assert file.stat().st_size > 50


def test_the_users_cache_folder_is_used_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache_clear()
    export()
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("JACSERVE_EXPORT_CACHE", "on")
    cache_clear()
    export()
    assert len(list((tmp_path / "jacserve" / "exports").iterdir())) == 1


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JACSERVE_EXPORT_CACHE", "/proc/no/such/folder")
    cache_clear()
    assert export()


def test_no_framework_is_imported_before_a_model_of_it_is_given() -> None:
    program = (
        "import sys, jacserve.frameworks as f\n"
        "assert f.framework_of((abs, {})) == 'jax'\n"
        "assert not {'torch', 'tensorflow', 'jax', 'keras'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    export()
    assert "jax" in sys.modules and not {"torch", "tensorflow"} & set(sys.modules)
