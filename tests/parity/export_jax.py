"""A JAX function -> graph with its parameters as inputs, and its Jacobian by jax.jacrev in float64."""
import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx import to_onnx

from case import rename_inputs, write
from models_jax import CASES

__all__ = ["CASES", "export"]


def similarity(case, u, v):
    dot = u @ v.T
    if case.pairwise == "dot":
        return case.sign * dot
    if case.pairwise == "sqdist":
        return case.sign * ((u[:, None] - v[None]) ** 2).sum(-1)
    u_norm, v_norm = (jnp.sqrt(jnp.maximum((each * each).sum(1), case.epsilon)) for each in (u, v))
    return case.sign * dot / (u_norm[:, None] * v_norm[None])


def jacobian(case, apply, parameters, batches):
    """(value, blocks of the parameters, blocks of the inputs), all float64."""
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
    value, blocks = target(parameters, chosen), jax.jacrev(target, argnums=(0, 1))(parameters, chosen)
    leaves = [np.asarray(block) for block in jax.tree_util.tree_leaves(blocks[0])]
    return np.asarray(value), leaves, [np.asarray(block) for block in blocks[1]]


def export(case, folder):
    parameters, apply = case.build(case.rng())
    parameters = jax.tree_util.tree_map(np.float32, parameters)
    leaves, tree = jax.tree_util.tree_flatten_with_path(parameters)
    weights = {".".join(key.key for key in path): np.asarray(leaf, np.float32) for path, leaf in leaves}
    batches = case.batches()

    def function(*arrays):
        return apply(jax.tree_util.tree_unflatten(tree, arrays[:len(weights)]), *arrays[len(weights):])

    shapes = [value.shape for value in weights.values()]
    shapes += [("B", *array.shape[1:]) for array in batches[0].values()]
    types = [array.dtype for array in [*weights.values(), *batches[0].values()]]
    model = to_onnx(function, [jax.ShapeDtypeStruct(*pair) for pair in zip(shapes, types)])
    rename_inputs(model, [*weights, *batches[0]])
    with jax.enable_x64(True):
        double = jax.tree_util.tree_map(np.float64, parameters)
        value, blocks, input_blocks = jacobian(case, apply, double, batches)
    write(folder, case, model, weights, batches, value, dict(zip(weights, blocks, strict=True)), input_blocks)
