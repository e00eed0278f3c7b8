"""`jacserve.jax.jacrev`: what `jax.jacrev` gives, computed by jacserve.

In: a function of arrays. Out: a function that gives its Jacobian as JAX arrays, in the arguments' structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from jacserve.connection import Server
from jacserve.errors import InvalidRequestError
from jacserve.frameworks import _closed
from jacserve.frameworks.jax import array_of, close
from jacserve.progress import ProgressSetting

__all__ = ["jacrev"]


def jacrev(
    fun: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    server: Server | str | None = None,
    progress: ProgressSetting = None,
) -> Callable[..., Any]:
    """`jax.jacrev(fun, argnums)`.

        jac = jacserve.jax.jacrev(lambda params: apply(params, x))(params)

    The batch, among the other arguments or closed over, is found by its axis 0, which is the output's; then rows are
    computed from their own sample alone. The result is held in memory; jacserve.jacobian((apply, params), x) streams
    it.

    Args:
        fun: of arrays or trees of them; returns a float array or a tree of them. It is traced, as by jax.jit.
        argnums: arguments to differentiate with respect to; float arrays or trees of them.
        has_aux: fun returns (output, something else); the result is then (Jacobian, something else).
        server: as for jacserve.jacobian.
        progress: as for jacserve.jacobian.

    Returns:
        A function of fun's arguments. It returns, for each array of the output, trees as the argument (a tuple of them
        for a tuple of argnums) of arrays of shape output shape + argument shape; zeros where the output does not depend
        on it.

    Raises:
        InvalidRequestError: an argument to differentiate by is not of floats.
        UnsupportedOperatorError: a primitive has no ONNX form, or jacserve lacks it.
    """
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def jacobian(*args: Any) -> Any:
        picked = {index % len(args) for index in chosen}
        flat, structure = jax.tree_util.tree_flatten(args)
        owners = [index for index, arg in enumerate(args) for _ in jax.tree_util.tree_leaves(arg)]
        wrt = [place for place, owner in enumerate(owners) if owner in picked]
        arrays = [array_of(leaf) for leaf in flat]
        for place in wrt:
            if arrays[place].dtype.kind != "f":
                raise InvalidRequestError(f"argument {owners[place]} holds something else than float arrays")
        closed, output_structure = close(fun, arrays, structure, wrt, has_aux)
        per_output = []
        for (_, shape), blocks in zip(
            closed.outputs, _closed.jacobians(closed, server=server, progress=progress), strict=True
        ):
            by_place = dict(zip(wrt, _closed.in_order(blocks, closed), strict=True))
            results = [
                _array(by_place[place], arrays[place], shape) if place in by_place else None
                for place in range(len(flat))
            ]
            trees = jax.tree_util.tree_unflatten(structure, results)
            per_output.append(trees[chosen[0]] if isinstance(argnums, int) else tuple(trees[i] for i in chosen))
        result = jax.tree_util.tree_unflatten(output_structure, per_output)
        return (result, fun(*args)[1]) if has_aux else result

    return jacobian


def _array(block: Any, like: Any, shape: tuple[int, ...]) -> jax.Array:
    if block is None:
        return jax.numpy.zeros((*shape, *like.shape), like.dtype)
    return jax.dlpack.from_dlpack(block)  # the same memory where JAX's alignment permits it
