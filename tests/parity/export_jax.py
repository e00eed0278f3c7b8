"""A JAX function with its parameters, and its Jacobian by jax.jacrev in float64."""
import jax
import jax.numpy as jnp
import numpy as np

from models_jax import CASES

__all__ = ["CASES", "arguments", "jacobian", "live"]


def live(case, batches):
    """(function, parameters), as jacserve takes them."""
    parameters, apply = case.build(case.rng())
    return apply, jax.tree_util.tree_map(np.float32, parameters)


def arguments(batch):
    return tuple(batch.values())


def similarity(case, u, v):
    dot = u @ v.T
    if case.pairwise == "dot":
        return case.sign * dot
    if case.pairwise == "sqdist":
        return case.sign * ((u[:, None] - v[None]) ** 2).sum(-1)
    u_norm, v_norm = (jnp.sqrt(jnp.maximum((each * each).sum(1), case.epsilon)) for each in (u, v))
    return case.sign * dot / (u_norm[:, None] * v_norm[None])


def jacobian(case, model, batches):
    """(value, blocks of the parameters, blocks of the inputs), all float64."""
    with jax.enable_x64(True):
        apply, parameters = model
        return differentiate(case, apply, jax.tree_util.tree_map(np.float64, parameters), batches)


def differentiate(case, apply, parameters, batches):
    data = [array.astype(np.float64) if array.dtype == np.float32 else array
            for batch in batches for array in batch.values()]
    smooth = [index for index, array in enumerate(data) if case.wrt_inputs and array.dtype == np.float64]

    def target(values, chosen):
        every = list(data)
        for index, value in zip(smooth, chosen, strict=True):
            every[index] = value
        size = len(case.inputs)
        outputs = [apply(values, *every[begin:begin + size]) for begin in range(0, len(every), size)]
        flat = (output.reshape(output.shape[0], -1) for output in outputs)
        return similarity(case, *flat) if case.pairwise else outputs[0]

    chosen = [data[index] for index in smooth]
    # Compiled as one: operation by operation takes several times as long.
    value, blocks = jax.jit(lambda *args: (target(*args), jax.jacrev(target, argnums=(0, 1))(*args)))(parameters, chosen)
    leaves = [np.asarray(block) for block in jax.tree_util.tree_leaves(blocks[0])]
    return np.asarray(value), leaves, [np.asarray(block) for block in blocks[1]]
