"""The Jacobian of seed_full as TensorFlow's documentation has it when `tape.jacobian` does not fit: row by row.

usage: seed_tensorflow.py CASE_FOLDER; prints one JSON object {"seconds": whole Jacobian, "version", "note"}. Two of the
56 samples of the first batch are timed, since every row costs the same.
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

    @tf.function
    def row(i, j):
        with tf.GradientTape() as tape:
            u = tf.math.l2_normalize(encode(params, x[i:i + 1]), -1)
            v = tf.math.l2_normalize(encode(params, y[j:j + 1]), -1)
            value = -tf.reduce_sum(u * v)
        return tape.gradient(value, list(params.values()))

    row(tf.constant(0), tf.constant(0))
    timed = 2
    begin = time.perf_counter()
    for i in range(timed):
        for j in range(len(y)):
            row(tf.constant(i), tf.constant(j))[0].numpy()
    seconds = (time.perf_counter() - begin) * len(x) / timed
    print(json.dumps({"seconds": seconds, "version": tf.__version__, "note": " (from 2 of 56 samples)"}))


main(sys.argv[1])
