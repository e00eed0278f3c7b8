"""A Jacobian that is larger than what may be held goes to disk within little memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import jacserve
from golden import Case
from processes import environment, rss_anon

LIMIT = 512 << 20
CODE = """
    import sys, jacserve
    from golden import Case
    jac = Case("seed_full").jacobian(sys.argv[1], rows=eval(sys.argv[3]))
    jac.to_npy(sys.argv[2])
"""


def write_and_watch(server: jacserve.Server, out: Path, rows: tuple[int, int] | None) -> tuple[int, float]:
    """The largest RssAnon seen, in bytes, and seconds."""
    begin = time.monotonic()
    command = [sys.executable, "-c", textwrap.dedent(CODE), server.address, str(out), repr(rows)]
    process = subprocess.Popen(command, env=environment())
    most = 0
    while process.poll() is None:
        most = max(most, rss_anon(process.pid))
        time.sleep(0.005)
    assert process.returncode == 0
    return most, time.monotonic() - begin


def test_writing_1_4_gb_holds_under_512_mib(server: jacserve.Server, tmp_path: Path) -> None:
    most, _ = write_and_watch(server, tmp_path / "out", (0, 320))
    assert sum(file.stat().st_size for file in (tmp_path / "out").iterdir()) > 1.4e9
    assert 0 < most < LIMIT


@pytest.mark.slow
def test_writing_the_seeds_14_gb_holds_under_512_mib(server: jacserve.Server, tmp_path: Path) -> None:
    case = Case("seed_full")
    out = tmp_path / "out"
    most, seconds = write_and_watch(server, out, None)
    nbytes = sum(file.stat().st_size for file in out.iterdir())
    print(f"{nbytes / 1e9:.2f} GB in {seconds:.1f} s, RssAnon at most {most / 2**20:.0f} MiB")
    assert nbytes > 14.2e9
    assert 0 < most < LIMIT
    expected = case.expected
    for name in [key.split("/", 1)[1] for key in expected if key.startswith("norm/")]:
        array = np.load(out / f"{name}.npy", mmap_mode="r").reshape(3136, -1)
        norms = expected[f"norm/{name}"].reshape(-1)
        for row in range(0, 3136, 97):
            assert np.linalg.norm(array[row]) == pytest.approx(norms[row], rel=1e-4, abs=1e-12), (name, row)
    for file in out.iterdir():
        file.unlink()
