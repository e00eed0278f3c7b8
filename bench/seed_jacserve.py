"""The Jacobian of the seed from a live Keras model through jacserve's Python client, every row received and dropped.

usage: seed_jacserve.py CASE_FOLDER; JACSERVE_BIN names the programs' folder. Prints one JSON object {"seconds": whole
Jacobian, export included, "first_row_seconds": export, upload and first row after imports, "version", "bytes",
"peak_bytes": of this process, the coordinator and the workers together}.
"""
import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JACSERVE_PROGRESS", "0")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../client/python/src"))
import numpy as np  # noqa: E402
import tf2onnx  # noqa: E402,F401

import jacserve  # noqa: E402
from jacserve.demo import build_encoder  # noqa: E402
from jacserve.frameworks import keras as _  # noqa: E402,F401


def descendants(parent):
    """Processes that this one started, and those that they did."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                children.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(entry))
        except OSError:  # it has ended
            continue
    found, waiting = [], [parent]
    while waiting:
        found += children.get(waiting[-1], [])
        waiting += children.get(waiting.pop(), [])
    return found


def peak(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def main(folder):
    encoder = build_encoder()
    weights = np.load(f"{folder}/weights.npz")
    layers = ("Conv", "Conv1", "Conv2", "dense0", "dense1")
    encoder.set_weights([weights[f"{layer}.{part}"] for layer in layers for part in ("kernel", "bias")]
                        + [variable.numpy() for variable in encoder.policy.variables])
    x, y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")
    with jacserve.local(2, memory_budget="512MiB") as server:
        begin = time.perf_counter()
        target = jacserve.pairwise(y, "cosine", sign=-1)
        jac = jacserve.jacobian(encoder, x, target=target, method="representation", server=server)
        jac.rows(0, 1)
        first = time.perf_counter() - begin
        received = sum(arrays.nbytes for _, arrays in jac.batches("512MiB"))
        seconds = time.perf_counter() - begin
        total = sum(peak(pid) for pid in [os.getpid(), *descendants(os.getpid())])
    print(json.dumps({"seconds": seconds, "first_row_seconds": first, "version": jacserve.__version__,
                      "bytes": received, "peak_bytes": total}))


main(sys.argv[1])
