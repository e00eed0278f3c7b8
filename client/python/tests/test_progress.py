"""Progress is told to whoever wants it, and to nobody else."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import jacserve
from golden import Case
from jacserve import progress


@pytest.mark.usefixtures("nothing_is_small")
def test_a_function_is_told_rows_and_bytes(server: jacserve.Server, mlp: Case, tmp_path: Path) -> None:
    calls: list[tuple[int, int, int]] = []
    jac = mlp.jacobian(server, progress=lambda *call: calls.append(call))
    for action in (jac.rows, lambda: list(jac.batches(3000)), lambda: jac.to_npy(tmp_path / "out")):
        calls.clear()
        action()
        assert calls[-1] == (15, 15, jac.nbytes)
        assert [call[0] for call in calls] == sorted(call[0] for call in calls)


@pytest.mark.parametrize(
    ("setting", "environment", "shown"),
    [
        (None, None, False),  # standard error is no terminal
        (None, "1", True),
        (None, "0", False),
        (None, "off", False),
        (True, "0", True),
        (False, "1", False),
    ],
)
@pytest.mark.parametrize("with_tqdm", [True, False])
def test_a_bar_is_shown_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    setting: bool | None,
    environment: str | None,
    shown: bool,
    with_tqdm: bool,
) -> None:
    if not with_tqdm:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.delenv("JACSERVE_PROGRESS", raising=False)
    if environment is not None:
        monkeypatch.setenv("JACSERVE_PROGRESS", environment)
    monkeypatch.setattr(progress, "_DELAY_SECONDS", 0)
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", 0)
    reporter = progress.Reporter(setting, 100, 10**9)
    for begin in range(0, 100, 10):
        time.sleep(0.02)
        reporter.rows_done(begin, begin + 10)
    reporter.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert ("GB/s" in err and "100" in err) == shown
    assert shown or err == ""


@pytest.mark.parametrize(
    ("setting", "seconds", "said"),
    [(True, 0.3, True), (True, 0.0, False), (False, 0.3, False), (lambda *_: None, 0.3, False)],
)
def test_what_takes_long_before_the_first_row_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    setting: progress.ProgressSetting,
    seconds: float,
    said: bool,
) -> None:
    monkeypatch.setattr(progress, "_DELAY_SECONDS", 0.05)
    with progress.step("exporting", setting):
        time.sleep(seconds)
    assert capfd.readouterr().err == ("jacserve: exporting ...\n" if said else "")


def test_rows_that_come_twice_do_not_exceed_the_whole() -> None:
    calls: list[tuple[int, int, int]] = []
    reporter = progress.Reporter(lambda *call: calls.append(call), 10, 4)
    reporter.rows_done(0, 8)
    reporter.rows_done(0, 8)
    assert calls == [(8, 10, 32), (10, 10, 40)]
