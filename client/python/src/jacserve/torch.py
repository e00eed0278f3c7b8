"""`jacserve.torch.jacrev`: what `torch.func.jacrev` gives, computed by jacserve.

In: a function of tensors. Out: a function that gives its Jacobian as torch tensors, in the arguments' structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from jacserve.connection import Server
from jacserve.errors import InvalidRequestError
from jacserve.frameworks import _closed
from jacserve.frameworks.torch import close
from jacserve.progress import ProgressSetting

__all__ = ["jacrev"]


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    server: Server | str | None = None,
    progress: ProgressSetting = None,
) -> Callable[..., Any]:
    """`torch.func.jacrev(func, argnums)`.

        params = dict(model.named_parameters())
        jac = jacserve.torch.jacrev(lambda p: torch.func.functional_call(model, p, (x,)))(params)

    The batch, among the other arguments or closed over, is found by its axis 0, which is the output's; then rows are
    computed from their own sample alone. The result is held in memory; jacserve.jacobian(model, x) streams it.

    Args:
        func: of tensors or trees of them; returns a float tensor or a tree of them. It is traced by torch.export.
        argnums: arguments to differentiate with respect to; float tensors or trees of them.
        has_aux: func returns (output, something else); the result is then (Jacobian, something else).
        server: as for jacserve.jacobian.
        progress: as for jacserve.jacobian.

    Returns:
        A function of func's arguments. It returns, for each tensor of the output, trees as the argument (a tuple of
        them for a tuple of argnums) of CPU tensors of shape output shape + argument shape; zeros where the output does
        not depend on it.

    Raises:
        InvalidRequestError: an argument to differentiate by is not of floats, or torch.export refuses func.
        UnsupportedOperatorError: an operation has no ONNX form, or jacserve lacks it.
    """
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def jacobian(*args: Any) -> Any:
        picked = {index % len(args) for index in chosen}
        flat, structure = pytree.tree_flatten(args)
        owners = [index for index, arg in enumerate(args) for _ in pytree.tree_leaves(arg)]
        wrt = [place for place, owner in enumerate(owners) if owner in picked]
        for place in wrt:
            if not isinstance(flat[place], torch.Tensor) or not flat[place].is_floating_point():
                raise InvalidRequestError(f"argument {owners[place]} holds something else than float tensors")
        closed, output_structure = close(func, flat, structure, wrt, has_aux)
        per_output = []
        for (_, shape), blocks in zip(
            closed.outputs, _closed.jacobians(closed, server=server, progress=progress), strict=True
        ):
            by_place = dict(zip(wrt, _closed.in_order(blocks, closed), strict=True))
            tensors = [
                _tensor(by_place[place], flat[place], shape) if place in by_place else None
                for place in range(len(flat))
            ]
            trees = pytree.tree_unflatten(tensors, structure)
            per_output.append(trees[chosen[0]] if isinstance(argnums, int) else tuple(trees[i] for i in chosen))
        result = pytree.tree_unflatten(per_output, output_structure)
        return (result, func(*args)[1]) if has_aux else result

    return jacobian


def _tensor(block: Any, like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    if block is None:
        return torch.zeros((*shape, *like.shape), dtype=like.dtype)
    return torch.from_numpy(block)  # the same memory
