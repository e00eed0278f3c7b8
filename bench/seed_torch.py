"""The Jacobian of seed_full as an expert writes it in torch: vmap over the second batch of grad of one pair.

usage: seed_torch.py CASE_FOLDER [cpu|cuda]; prints one JSON object {"seconds": whole Jacobian, "version", "note"}. A
quarter of the first batch's rows is timed, since every one costs the same.
"""
import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.func import grad, vmap

LAYERS = (("Conv", 4, 8), ("Conv1", 2, 4), ("Conv2", 1, 3))


def encode(params, image):
    value = image.permute(2, 0, 1)[None]
    for name, stride, size in LAYERS:
        total = max((-(-value.shape[2] // stride) - 1) * stride + size - value.shape[2], 0)
        value = F.pad(value, (total // 2, total - total // 2) * 2)
        value = F.relu(F.conv2d(value, params[name + ".kernel"].permute(3, 2, 0, 1), params[name + ".bias"], stride))
    value = value.permute(0, 2, 3, 1).reshape(1, -1)
    for name in ("dense0", "dense1"):
        value = F.relu(value @ params[name + ".kernel"] + params[name + ".bias"])
    return value[0]


def similarity(params, x, y):
    def unit(w):
        return w * torch.rsqrt(torch.clamp(torch.sum(w * w), min=1e-12))

    return -torch.dot(unit(encode(params, x)), unit(encode(params, y)))


def main(folder, device="cpu"):
    def finish():
        if device == "cuda":
            torch.cuda.synchronize()

    weights = np.load(folder + "/weights.npz")
    names = [name for name in weights.files if not name.startswith("dense2")]
    params = {name: torch.from_numpy(weights[name]).to(device) for name in names}
    x, y = (torch.from_numpy(np.load(f"{folder}/{name}.npy")).to(device) for name in "xy")
    rows_of = vmap(grad(similarity), in_dims=(None, None, 0))
    rows_of(params, x[0], y[:14])
    finish()
    timed = len(x) // 4
    begin = time.perf_counter()
    for x_i in x[:timed]:
        for first in range(0, len(y), 14):
            rows_of(params, x_i, y[first:first + 14])
    finish()
    seconds = (time.perf_counter() - begin) * len(x) / timed
    print(json.dumps({"seconds": seconds, "version": torch.__version__, "note": " (from a quarter)"}))


main(*sys.argv[1:])
