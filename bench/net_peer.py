"""Times a framework's best per-sample Jacobian of one network: pullbacks vectorised over outputs and samples, compiled.

usage: net_peer.py jax|torch NETWORK THREADS; prints one JSON object {"seconds", "samples_together", "version"}.
"""
import json
import os
import sys
import time

FRAMEWORK, NETWORK, THREADS = sys.argv[1], sys.argv[2], sys.argv[3]
os.environ.setdefault("OMP_NUM_THREADS", THREADS)

import networks  # noqa: E402  (after the number of threads is set)

LIMIT_BYTES = 3e9  # of one call's result


def jax_runner(net):
    import jax
    import jax.numpy as jnp

    class Np:
        relu, sqrt, swap = staticmethod(jax.nn.relu), staticmethod(jnp.sqrt), staticmethod(jnp.swapaxes)
        softmax, log_softmax = staticmethod(jax.nn.softmax), staticmethod(jax.nn.log_softmax)

        @staticmethod
        def conv(x, k):
            return jax.lax.conv_general_dilated(x[None], k, (1, 1), "VALID",
                                                dimension_numbers=("NCHW", "OIHW", "NCHW"))[0]

        @staticmethod
        def max_pool(x):
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2), (1, 2, 2), "VALID")

    parameters = {k: jnp.asarray(v) for k, v in net.parameters.items()}
    jacobian = jax.jit(jax.vmap(jax.jacrev(lambda p, x: net.peer(Np, p, x)), in_axes=(None, 0)))
    outputs = jax.eval_shape(lambda p, x: net.peer(Np, p, x), parameters, net.x[0]).shape[0]
    return lambda x: jax.block_until_ready(jacobian(parameters, jnp.asarray(x))), outputs, jax.__version__


def torch_runner(net):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(int(THREADS))

    class Np:
        relu, sqrt = staticmethod(F.relu), staticmethod(torch.sqrt)
        swap = staticmethod(lambda x, a, b: x.transpose(a, b))
        softmax = staticmethod(lambda x: F.softmax(x, -1))
        log_softmax = staticmethod(lambda x: F.log_softmax(x, -1))
        conv = staticmethod(lambda x, k: F.conv2d(x[None], k)[0])
        max_pool = staticmethod(lambda x: F.max_pool2d(x[None], 2)[0])

    parameters = {k: torch.from_numpy(v) for k, v in net.parameters.items()}
    outputs = net.peer(Np, parameters, torch.from_numpy(net.x[0])).shape[0]
    if outputs == 1:
        jacobian = torch.func.vmap(torch.func.grad(lambda p, x: net.peer(Np, p, x)[0]), in_dims=(None, 0))
    else:
        jacobian = torch.func.vmap(torch.func.jacrev(lambda p, x: net.peer(Np, p, x)), in_dims=(None, 0))
    return lambda x: jacobian(parameters, torch.from_numpy(x)), outputs, torch.__version__


def main():
    net = networks.NETS[NETWORK]()
    run, outputs, version = {"jax": jax_runner, "torch": torch_runner}[FRAMEWORK](net)
    row_bytes = 4 * sum(v.size for v in net.parameters.values())
    best = None
    for together in (1, 4, 16, 64):  # what the best of these is differs per network and framework
        if together > net.samples or together * outputs * row_bytes > LIMIT_BYTES:
            continue
        usable = net.samples // together * together
        run(net.x[:together])
        begin = time.perf_counter()
        for first in range(0, usable, together):
            run(net.x[first:first + together])
        seconds = (time.perf_counter() - begin) * net.samples / usable
        if best is None or seconds < best["seconds"]:
            best = {"seconds": seconds, "samples_together": together, "version": version}
    print(json.dumps(best))


main()
