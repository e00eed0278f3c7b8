"""The networks of the benchmark, each three times: as ONNX with its numbers, as a JAX function, as a torch function.

A network is f(parameters, one sample) -> outputs; `parameters` is a dict of arrays in ONNX's names and layouts.
"""
import math

import numpy as np


class Net:
    def __init__(self, name, samples, sample_shape, parameters, nodes, peer, what):
        self.name, self.samples, self.sample_shape, self.nodes, self.peer, self.what = (
            name, samples, sample_shape, nodes, peer, what)
        generator = np.random.default_rng(7)
        self.parameters = {}
        for key, shape in parameters.items():
            fan = max(math.prod(shape[1:]) if len(shape) == 4 else shape[0], 1)
            values = generator.standard_normal(shape) / math.sqrt(fan)
            self.parameters[key] = (values + (1 if key.endswith("gain") else 0)).astype(np.float32)
        self.x = generator.standard_normal((samples, *sample_shape)).astype(np.float32)


def dense_stack(sizes):
    parameters, nodes, value = {}, [], "x"
    for k, (a, b) in enumerate(zip(sizes, sizes[1:])):
        last = k == len(sizes) - 2
        parameters[f"w{k}"], parameters[f"b{k}"] = (a, b), (b,)
        nodes.append(("Gemm", [value, f"w{k}", f"b{k}"], "y" if last else f"h{k}", {}))
        if not last:
            nodes.append(("Relu", [f"h{k}"], f"r{k}", {}))
            value = f"r{k}"
    return parameters, nodes


def mlp(name="mlp", sizes=(256, 1024, 1024, 64), samples=128, outputs=None):
    """With `outputs`, the first so many of them alone: fewer rows of the same parameters."""
    parameters, nodes = dense_stack(sizes)
    if outputs:
        op, inputs, _, attributes = nodes[-1]
        nodes = nodes[:-1] + [(op, inputs, "all", attributes), ("Slice", ["all", "zero", str(outputs), "one"], "y", {})]

    def peer(np_, p, x):
        for k in range(len(sizes) - 1):
            x = x @ p[f"w{k}"] + p[f"b{k}"]
            x = np_.relu(x) if k < len(sizes) - 2 else x
        return x[:outputs]

    return Net(name, samples, (sizes[0],), parameters, nodes, peer, "MLP " + "-".join(map(str, sizes)))


def conv3():
    parameters = {"k0": (32, 3, 3, 3), "c0": (32,), "k1": (32, 32, 3, 3), "c1": (32,), "k2": (32, 32, 3, 3),
                  "c2": (32,), "w": (21632, 10), "b": (10,)}
    nodes, value = [], "x"
    for k in range(3):
        nodes += [("Conv", [value, f"k{k}", f"c{k}"], f"h{k}", {}), ("Relu", [f"h{k}"], f"r{k}", {})]
        value = f"r{k}"
    nodes += [("Flatten", [value], "flat", {}), ("Gemm", ["flat", "w", "b"], "y", {})]

    def peer(np_, p, x):
        for k in range(3):
            x = np_.relu(np_.conv(x, p[f"k{k}"]) + p[f"c{k}"].reshape(-1, 1, 1))
        return x.reshape(-1) @ p["w"] + p["b"]

    return Net("conv3", 20, (3, 32, 32), parameters, nodes, peer, "three 3x3 convolutions of 32 channels, dense 21632-10")


def mnist():
    parameters = {"k0": (32, 1, 3, 3), "c0": (32,), "k1": (64, 32, 3, 3), "c1": (64,), "w0": (9216, 128), "b0": (128,),
                  "w1": (128, 10), "b1": (10,)}
    nodes = [("Conv", ["x", "k0", "c0"], "h0", {}), ("Relu", ["h0"], "r0", {}),
             ("Conv", ["r0", "k1", "c1"], "h1", {}), ("Relu", ["h1"], "r1", {}),
             ("MaxPool", ["r1"], "pool", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Flatten", ["pool"], "flat", {}),
             ("Gemm", ["flat", "w0", "b0"], "h2", {}), ("Relu", ["h2"], "r2", {}),
             ("Gemm", ["r2", "w1", "b1"], "logits", {}), ("LogSoftmax", ["logits"], "all", {"axis": 1}),
             ("Gather", ["all", "class"], "y", {"axis": 1})]

    def peer(np_, p, x):
        for k in range(2):
            x = np_.relu(np_.conv(x, p[f"k{k}"]) + p[f"c{k}"].reshape(-1, 1, 1))
        x = np_.relu(np_.max_pool(x).reshape(-1) @ p["w0"] + p["b0"])
        return np_.log_softmax(x @ p["w1"] + p["b1"])[3:4]

    return Net("mnist", 64, (1, 28, 28), parameters, nodes, peer, "conv, conv, max pool, dense; a log-likelihood")


def transformer(d=64, heads=4, tokens=16, hidden=256):
    parameters = {"wq": (d, d), "wk": (d, d), "wv": (d, d), "wo": (d, d), "g1_gain": (d,), "n1": (d,), "g2_gain": (d,),
                  "n2": (d,), "w1": (d, hidden), "b1": (hidden,), "w2": (hidden, d), "b2": (d,)}
    nodes = []
    for key in "qkv":
        nodes += [("MatMul", ["x", f"w{key}"], f"p{key}", {}), ("Reshape", [f"p{key}", "split"], f"s{key}", {}),
                  ("Transpose", [f"s{key}"], f"h{key}", {"perm": [0, 2, 3, 1] if key == "k" else [0, 2, 1, 3]})]
    nodes += [("MatMul", ["hq", "hk"], "scores", {}), ("Mul", ["scores", "scale"], "scaled", {}),
              ("Softmax", ["scaled"], "weights", {"axis": -1}), ("MatMul", ["weights", "hv"], "mixed", {}),
              ("Transpose", ["mixed"], "back", {"perm": [0, 2, 1, 3]}), ("Reshape", ["back", "merge"], "merged", {}),
              ("MatMul", ["merged", "wo"], "attended", {}), ("Add", ["x", "attended"], "sum1", {}),
              ("LayerNormalization", ["sum1", "g1_gain", "n1"], "norm1", {"axis": -1}),
              ("MatMul", ["norm1", "w1"], "f1", {}), ("Add", ["f1", "b1"], "f1b", {}), ("Relu", ["f1b"], "f1r", {}),
              ("MatMul", ["f1r", "w2"], "f2", {}), ("Add", ["f2", "b2"], "f2b", {}), ("Add", ["norm1", "f2b"], "sum2", {}),
              ("LayerNormalization", ["sum2", "g2_gain", "n2"], "y", {"axis": -1})]

    def peer(np_, p, x):
        def norm(v, gain, bias):
            v = v - v.mean(-1)[:, None]
            return v / np_.sqrt((v * v).mean(-1)[:, None] + 1e-5) * gain + bias

        def split(v):
            return np_.swap(v.reshape(tokens, heads, d // heads), 0, 1)

        q, k, v = (split(x @ p[w]) for w in ("wq", "wk", "wv"))
        weights = np_.softmax(q @ np_.swap(k, 1, 2) / math.sqrt(d // heads))
        x = norm(x + np_.swap(weights @ v, 0, 1).reshape(tokens, d) @ p["wo"], p["g1_gain"], p["n1"])
        return norm(x + np_.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"], p["g2_gain"], p["n2"]).reshape(-1)

    return Net("transformer", 32, (tokens, d), parameters, nodes, peer, "transformer encoder layer, d 64, 4 heads, 16 tokens")


CONSTANTS = {"class": np.array([3]), "split": np.array([-1, 16, 4, 16]), "merge": np.array([-1, 16, 64]),
             "scale": np.array(1 / math.sqrt(16), np.float32), "zero": np.array([0]), "one": np.array([1]),
             "64": np.array([64])}


def write_case(net, folder):
    """graph.onnx, weights.npz, inputs.npz and case.json, as tests/golden has them."""
    import json
    import os

    import onnx
    from onnx import TensorProto, helper, numpy_helper

    os.makedirs(folder, exist_ok=True)
    used = {name for _, inputs, _, _ in net.nodes for name in inputs}
    graph = helper.make_graph(
        [helper.make_node(op, inputs, [output], **attributes) for op, inputs, output, attributes in net.nodes], net.name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *net.sample_shape])]
        + [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in net.parameters.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in CONSTANTS.items() if k in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8),
              os.path.join(folder, "graph.onnx"))
    np.savez(os.path.join(folder, "weights.npz"), **net.parameters)
    np.savez(os.path.join(folder, "inputs.npz"), x=net.x)
    with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as file:
        json.dump({"target": {"kind": "outputs"}, "wrt": list(net.parameters)}, file)


NETS = {"conv3": conv3, "mnist": mnist, "mlp": mlp, "transformer": transformer,
        "growth": lambda: mlp("growth", (256, 512, 512, 128), 128, 64),
        "growth_rows": lambda: mlp("growth_rows", (256, 512, 512, 128), 128),
        "growth_batch": lambda: mlp("growth_batch", (256, 512, 512, 128), 256, 64),
        "growth_parameters": lambda: mlp("growth_parameters", (256, 784, 784, 128), 128, 64)}
