"""The Python client beside the C++ one, on one server with two workers.

usage: python_client.py BIN_FOLDER SEED_FOLDER. Prints JSON lines: the rate at which rows of the seed reach .npy files
through either client, in turn, best of three; and the median time of a tiny request whose blobs the server holds.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import helper

BIN, SEED = sys.argv[1], sys.argv[2]
os.environ["JACSERVE_BIN"] = BIN
import jacserve  # noqa: E402: it reads the environment when a server is started

ROWS = 512
REPEATS = 3
REQUESTS = 300


def load(name):
    return np.load(os.path.join(SEED, name))


def python_rate(server, out):
    target = jacserve.pairwise(load("y.npy"), "cosine", sign=-1)
    graph, weights = os.path.join(SEED, "graph.onnx"), os.path.join(SEED, "weights.npz")
    begin = time.perf_counter()
    jac = jacserve.jacobian(graph, load("x.npy"), target=target, weights=weights, rows=(0, ROWS), server=server)
    jac.to_npy(out)
    return jac.nbytes / (time.perf_counter() - begin)


def cpp_rate(server, out):
    command = [f"{BIN}/jacserve", "jacobian", f"{SEED}/graph.onnx", "--weights", f"{SEED}/weights.npz",
               "--input", f"x={SEED}/x.npy", "--second", f"x={SEED}/y.npy", "--pairwise", "cosine", "--sign", "-1",
               "--rows", f"0:{ROWS}", "--server", server.address, "--out", out]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sum(entry.stat().st_size for entry in os.scandir(out)) / (time.perf_counter() - begin)


def mlp():
    """Linear(4, 16), Tanh, Linear(16, 10), as a functional graph, and its weights."""
    shapes = {"w0": (4, 16), "b0": (16,), "w1": (16, 10), "b1": (10,)}
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    inputs = [helper.make_tensor_value_info("x", 1, ["N", 4])]
    inputs += [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Gemm", ["x", "w0", "b0"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]),
             helper.make_node("Gemm", ["t", "w1", "b1"], ["y"])]
    graph = helper.make_graph(nodes, "mlp", inputs, [helper.make_tensor_value_info("y", 1, ["N", 10])])
    return helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), weights


def tiny_milliseconds(server):
    model, weights = mlp()
    graph = model.SerializeToString()
    x = np.ones((8, 4), np.float32)
    times = []
    for _ in range(REQUESTS):
        begin = time.perf_counter()
        jac = jacserve.jacobian(graph, x, weights=weights, server=server)
        jac.rows().numpy()
        times.append(1e3 * (time.perf_counter() - begin))
    assert jac.shape == (8, 10)
    return statistics.median(times)


def main():
    with jacserve.local(2, memory_budget="512MiB") as server, tempfile.TemporaryDirectory() as folder:
        rates = {"python": [], "cpp": []}
        for _ in range(REPEATS):  # in turn, so that a drifting machine meets both
            for name, rate in (("cpp", cpp_rate), ("python", python_rate)):
                out = os.path.join(folder, name)
                rates[name].append(rate(server, out))
                shutil.rmtree(out)
        print(json.dumps({"python_bytes_per_second": max(rates["python"]), "cpp_bytes_per_second": max(rates["cpp"]),
                          "tiny_milliseconds": tiny_milliseconds(server)}))


main()
