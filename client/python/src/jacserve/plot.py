"""Pictures of Jacobians, by matplotlib.

In: a Jacobian. Out: a matplotlib Figure; with `path`, also a file. Rows are streamed; only figures about them are held.
"""

from __future__ import annotations

import math
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jacserve.errors import InvalidRequestError
from jacserve.jacobian import Jacobian

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Path = str | PathLike[str]


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of its own, outside of pyplot's state: no display is needed, and nothing stays behind."""
    try:
        from matplotlib.figure import Figure as MatplotlibFigure
    except ImportError as error:
        raise InvalidRequestError("jacserve.plot needs matplotlib", "pip install jacserve[plot]") from error
    figure = MatplotlibFigure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _finish(figure: Any, path: Path | None) -> Figure:
    if path is not None:
        figure.savefig(path, dpi=150)
    result: Figure = figure
    return result


def row_norms_of(jac: Jacobian) -> NDArray[np.float64]:
    """The 2-norm of each row over all blocks, shape jac.shape."""
    squares = np.zeros(len(jac))
    for rows, arrays in jac.batches():
        for array in arrays.values():
            if array is not None:
                flat = array.reshape(len(rows), -1)
                squares[rows.start : rows.stop] += np.einsum("rp,rp->r", flat, flat, dtype=np.float64)
    return np.sqrt(squares).reshape(jac.shape)


def row_norms(jac: Jacobian, path: Path | None = None) -> Figure:
    """The 2-norm of each row as a picture of the target: a matrix for a target with two axes; with more, all but the
    last are joined; a line for one."""
    norms = row_norms_of(jac)
    figure, axes = _figure(6, 5)
    if norms.ndim < 2:
        axes.plot(norms.reshape(-1))
        axes.set(xlabel="row", ylabel="2-norm of the row")
    else:
        picture = axes.imshow(norms.reshape(-1, norms.shape[-1]), cmap="viridis", interpolation="nearest")
        figure.colorbar(picture, label="2-norm of the row")
        axes.set(xlabel="target axis -1", ylabel="target axis 0" if norms.ndim == 2 else "other target axes")
    axes.set_title(f"rows of the Jacobian, target {jac.shape}")
    return _finish(figure, path)


def sampled_singular_values(jac: Jacobian, sample: int = 256) -> NDArray[np.float64]:
    """Singular values, largest first, of `sample` rows spread evenly over the Jacobian, from their Gram matrix; those
    under about 1e-8 of the largest are rounding. Holds that many rows of each block at a time."""
    count = min(sample, len(jac))
    picks = np.unique(np.linspace(0, len(jac) - 1, count).round().astype(np.int64)) if count else np.zeros(0, np.int64)
    gram = np.zeros((len(picks), len(picks)))
    for name, block in jac.blocks.items():
        array = jac[name]
        if array is None or not len(picks):
            continue
        places = np.unravel_index(picks, jac.shape)
        rows = np.stack([array[tuple(int(axis[k]) for axis in places)].reshape(-1) for k in range(len(picks))])
        assert rows.shape[1] == math.prod(block.parameter_shape)
        wide = rows.astype(np.float64)
        gram += wide @ wide.T
    values: NDArray[np.float64] = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0))
    return values


def singular_values(jac: Jacobian, path: Path | None = None, *, sample: int = 256) -> Figure:
    """Singular values of a sample of rows, on a logarithmic axis."""
    values = sampled_singular_values(jac, sample)
    figure, axes = _figure(6, 4)
    positive = values > 0
    axes.semilogy(np.flatnonzero(positive) + 1, values[positive], marker=".")
    axes.set(xlabel="number", ylabel="singular value", title=f"{len(values)} of {len(jac)} rows")
    return _finish(figure, path)


def spy(jac: Jacobian, path: Path | None = None) -> Figure:
    """Which blocks each row reaches, and how strongly: for each row and block, log10 of the largest absolute number.
    White: zeros alone. Unconnected blocks are not shown."""
    names = [name for name, block in jac.blocks.items() if block.connected]
    largest = np.zeros((len(jac), len(names)))
    for rows, arrays in jac.batches():
        for column, name in enumerate(names):
            array = arrays[name]
            assert array is not None
            flat = np.abs(array.reshape(len(rows), -1))
            largest[rows.start : rows.stop, column] = flat.max(axis=1, initial=0)
    figure, axes = _figure(max(4.0, 0.5 * len(names)), 5)
    logs = np.full(largest.shape, np.nan)
    np.log10(largest, out=logs, where=largest > 0)
    picture = axes.imshow(logs, aspect="auto", interpolation="nearest", cmap="magma")
    figure.colorbar(picture, label="log10 of the largest number")
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set(ylabel="row", title="rows and blocks")
    return _finish(figure, path)


def timeline(jac: Jacobian, path: Path | None = None) -> Figure:
    """Who computed which rows when, of all that was fetched from `jac` until now: a line for each worker, a bar for
    each shard, coloured by its first row. Grey: compiling the request; hatched: the worker was lost, or gave it back.

    Raises:
        InvalidRequestError: nothing was fetched to its end yet.
    """
    runs = jac.computed.runs
    if not runs:
        raise InvalidRequestError(
            "no stream of this Jacobian has ended yet, so there is no timeline", "read rows or write files first"
        )
    from matplotlib import colormaps

    workers = sorted({run.worker for run in runs})
    figure, axes = _figure(8, 1.5 + 0.4 * len(workers))
    for run in runs:
        axes.barh(
            workers.index(run.worker),
            run.end - run.begin,
            left=run.begin,
            height=0.8,
            color="lightgrey" if run.rows is None else colormaps["viridis"](run.rows[0] / jac.layout.target_rows),
            hatch=None if run.completed else "//",
            edgecolor="white",
            linewidth=0.5,
        )
    axes.set_yticks(range(len(workers)), workers)
    axes.invert_yaxis()
    axes.set(xlabel="seconds", title=f"{len(runs)} turns of {len(workers)} workers")
    return _finish(figure, path)
