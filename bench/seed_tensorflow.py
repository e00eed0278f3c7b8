"""The Jacobian of seed_full in TensorFlow when `tape.jacobian` does not fit: one persistent tape over the matrix, one
`tape.gradient` per entry.

usage: seed_tensorflow.py CASE_FOLDER; prints one JSON object {"seconds": whole Jacobian, "version", "note"}. Every row
costs the same, so some of the 3,136 are timed.
"""
import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

LAYERS = (("Conv", 4), ("Conv1", 2), ("Conv2", 1))


def encode(params, images):
    value = images
    for name, stride in LAYERS:
        value = tf.nn.relu(tf.nn.conv2d(value, params[name + ".kernel"], stride, "SAME") + params[name + ".bias"])
    value = tf.reshape(value, [tf.shape(value)[0], -1])
    for name in ("dense0", "dense1"):
        value = tf.nn.relu(value @ params[name + ".kernel"] + params[name + ".bias"])
    return value


def main(folder):
    weights = np.load(folder + "/weights.npz")
    params = {name: tf.Variable(weights[name]) for name in weights.files if not name.startswith("dense2")}
    x, y = (tf.constant(np.load(f"{folder}/{name}.npy")) for name in "xy")

    with tf.GradientTape(persistent=True) as tape:
        u = tf.math.l2_normalize(encode(params, x), -1)
        v = tf.math.l2_normalize(encode(params, y), -1)
        matrix = -tf.matmul(u, v, transpose_b=True)
        entries = [matrix[i, j] for i in range(2) for j in range(len(y))]
    variables = list(params.values())
    tape.gradient(entries[0], variables)
    timed = 64
    begin = time.perf_counter()
    for entry in entries[:timed]:
        tape.gradient(entry, variables)[0].numpy()
    seconds = (time.perf_counter() - begin) * len(x) * len(y) / timed
    print(json.dumps({"seconds": seconds, "version": tf.__version__, "note": " (from 64 rows)"}))


main(sys.argv[1])
