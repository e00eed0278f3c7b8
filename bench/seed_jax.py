"""The Jacobian of seed_full as an expert writes it in JAX: one pullback of f per sample and pair, vmapped, jitted.

usage: seed_jax.py CASE_FOLDER, on JAX's own device; prints one JSON object {"seconds": whole Jacobian after compilation,
"version": ...}.
For every i: rows (i, :) = vmap over j of [pullback at x_i of dM/du_i + pullback at y_j of dM/dv_j].
"""
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

LAYERS = (("Conv", 4), ("Conv1", 2), ("Conv2", 1))


def encode(params, image):
    value = image[None]
    for name, stride in LAYERS:
        value = jax.lax.conv_general_dilated(value, params[name + ".kernel"], (stride, stride), "SAME",
                                             dimension_numbers=("NHWC", "HWIO", "NHWC"))
        value = jax.nn.relu(value + params[name + ".bias"])
    value = value.reshape(1, -1)
    for name in ("dense0", "dense1"):
        value = jax.nn.relu(value @ params[name + ".kernel"] + params[name + ".bias"])
    return value[0]


def similarity(u, v):
    def unit(w):
        return w * jax.lax.rsqrt(jnp.maximum(jnp.sum(w * w), 1e-12))

    return -jnp.dot(unit(u), unit(v))


@jax.jit
def rows_of(params, x_i, y):
    u, pull_u = jax.vjp(lambda p: encode(p, x_i), params)
    v = jax.vmap(lambda y_j: encode(params, y_j))(y)
    ct_u, ct_v = jax.vmap(jax.grad(similarity, argnums=(0, 1)), in_axes=(None, 0))(u, v)

    def row(ct_u_j, y_j, ct_v_j):
        _, pull_v = jax.vjp(lambda p: encode(p, y_j), params)
        return jax.tree_util.tree_map(jnp.add, pull_u(ct_u_j)[0], pull_v(ct_v_j)[0])

    return jax.vmap(row)(ct_u, y, ct_v)


def main(folder):
    weights = np.load(folder + "/weights.npz")
    params = {name: jnp.asarray(weights[name]) for name in weights.files if not name.startswith("dense2")}
    x, y = jnp.asarray(np.load(folder + "/x.npy")), jnp.asarray(np.load(folder + "/y.npy"))
    jax.block_until_ready(rows_of(params, x[0], y))
    begin = time.perf_counter()
    for x_i in x:
        jax.block_until_ready(rows_of(params, x_i, y))
    print(json.dumps({"seconds": time.perf_counter() - begin, "version": jax.__version__}))


main(sys.argv[1])
