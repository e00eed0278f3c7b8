"""Pictures show the figures that numpy computes from the whole Jacobian."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import jacserve
from golden import Case
from jacserve import plot


@pytest.fixture(scope="module")
def jac(server: jacserve.Server) -> jacserve.Jacobian:
    return Case("seed_architecture_narrow").jacobian(server)


@pytest.fixture(scope="module")
def dense(jac: jacserve.Jacobian) -> np.ndarray:
    return np.concatenate([a.reshape(len(jac), -1) for a in jac.rows().values() if a is not None], axis=1)


def test_norms_of_rows_have_the_targets_shape(jac: jacserve.Jacobian, dense: np.ndarray) -> None:
    np.testing.assert_allclose(plot.row_norms_of(jac), np.linalg.norm(dense, axis=1).reshape(4, 3), rtol=1e-5)


def test_singular_values_are_those_of_the_rows(jac: jacserve.Jacobian, dense: np.ndarray) -> None:
    expected = np.linalg.svd(dense.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(plot.sampled_singular_values(jac), expected, rtol=1e-4, atol=1e-5 * expected[0])
    sample = np.linalg.svd(dense[[0, 4, 7, 11]].astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(plot.sampled_singular_values(jac, 4), sample, rtol=1e-4, atol=1e-5 * sample[0])


@pytest.mark.parametrize("picture", [plot.row_norms, plot.singular_values, plot.spy])
@pytest.mark.parametrize("rows", [None, (2, 7)])
def test_each_picture_becomes_a_png(
    server: jacserve.Server, tmp_path: Path, picture: object, rows: tuple[int, int] | None
) -> None:
    jac = Case("seed_architecture_narrow").jacobian(server, rows=rows)
    figure = picture(jac, tmp_path / "picture.png")  # type: ignore[operator]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert figure.axes[0].get_title()


def test_the_timeline_has_every_row_once_and_a_bar_for_every_turn(server: jacserve.Server, tmp_path: Path) -> None:
    jac = Case("seed_architecture_narrow").jacobian(server, rows=(2, 11))
    with_the_header = len(jac.computed.runs)
    assert with_the_header >= 1
    jac.to_npy(tmp_path / "rows", streams=2)
    runs = jac.computed.runs
    assert all(run.completed and 0 <= run.begin <= run.end for run in runs)
    assert sorted(row for run in runs[with_the_header:] if run.rows for row in range(*run.rows)) == [*range(2, 11)]
    figure = plot.timeline(jac, tmp_path / "timeline.png")
    assert len(figure.axes[0].patches) == len(runs)
    assert {text.get_text() for text in figure.axes[0].get_yticklabels()} == {run.worker for run in runs}


def test_the_picture_of_norms_holds_them(jac: jacserve.Jacobian) -> None:
    shown = plot.row_norms(jac).axes[0].images[0].get_array()
    np.testing.assert_allclose(np.asarray(shown), plot.row_norms_of(jac))
