"""Golden cases as a user runs them: files in, a folder of .npy out, compared with the frameworks' float64 numbers."""
import json
import os
import tempfile
import unittest

import numpy as np
from cluster import GOLDEN, Coordinator, run

TOLERANCE = {"fp64": 1e-9, "fp32": 1e-4}
BLOCK_OF = {"input:0": "x", "input:1": "second.x"}


def arguments(folder, case, inputs, out):
    target = case["target"]
    result = ["jacobian", f"{folder}/graph.onnx", "--input", f"x={inputs}/x.npy", "--out", out]
    if case["functional"]:
        result += ["--weights", f"{folder}/weights.npz"]
    if target["kind"] == "pairwise":
        result += ["--second", f"x={inputs}/y.npy", "--pairwise", target["similarity"], "--sign", str(target["sign"])]
        if target["similarity"] == "cosine":
            result += ["--epsilon", repr(target["epsilon"]), "--cosine-form", target["form"]]
    for name in case["wrt"]:
        result += ["--wrt", name]
    return result + (["--wrt-input", "x"] if case["wrt_inputs"] else [])


class Cases(unittest.TestCase):
    def check(self, server, name, precision):
        folder = os.path.join(GOLDEN, name)
        with open(f"{folder}/case.json") as file:
            case = json.load(file)
        expected = np.load(f"{folder}/expected.npz")
        with tempfile.TemporaryDirectory() as scratch:
            for key, array in np.load(f"{folder}/inputs.npz").items():
                np.save(f"{scratch}/{key}.npy", array)
            out = f"{scratch}/out"
            run([*arguments(folder, case, scratch, out), "--server", server, "--precision", precision])
            with open(f"{out}/index.json") as file:
                blocks = {block["name"]: block for block in json.load(file)["blocks"]}
            for key in expected.files:
                file = "value.npy" if key == "value" else blocks[BLOCK_OF.get(key, key)]["file"]
                got = np.load(f"{out}/{file}")
                self.assertEqual(got.shape, expected[key].shape, key)
                limit = TOLERANCE[precision] * np.abs(expected[key]).max(initial=0)
                worst = np.abs(got - expected[key]).max(initial=0)
                # A block that is zero but for rounding has no largest value to go by.
                self.assertLessEqual(worst, max(limit, 1e-5 if key == "value" else 1e-12), key)
            for key in case.get("unconnected", []):
                self.assertEqual(blocks[key]["status"], "unconnected")

    def test_every_case_at_both_precisions(self):
        names = [name for name in sorted(os.listdir(GOLDEN)) if os.path.exists(f"{GOLDEN}/{name}/inputs.npz")]
        self.assertGreaterEqual(len(names), 12)
        with Coordinator() as coordinator:
            for name in names:
                for precision in ("fp64", "fp32"):
                    with self.subTest(case=name, precision=precision):
                        self.check(coordinator.address, name, precision)

    def test_empty_batch_gives_files_without_rows(self):
        folder = os.path.join(GOLDEN, "mlp_tanh")
        with Coordinator() as coordinator, tempfile.TemporaryDirectory() as scratch:
            np.save(f"{scratch}/x.npy", np.zeros((0, 4), np.float32))
            run(["jacobian", f"{folder}/graph.onnx", "--weights", f"{folder}/weights.npz", "--input",
                 f"x={scratch}/x.npy", "--out", f"{scratch}/out", "--server", coordinator.address])
            self.assertEqual(np.load(f"{scratch}/out/value.npy").shape, (0, 3))
            self.assertEqual(np.load(f"{scratch}/out/0.weight.npy").shape, (0, 3, 7, 4))


class HalfPrecision(unittest.TestCase):
    def test_what_rounding_lost_reaches_the_user(self):
        with Coordinator(1) as server, tempfile.TemporaryDirectory() as scratch:
            np.save(f"{scratch}/x.npy", np.full((4, 4), 1e-9, np.float32))
            command = ["jacobian", f"{GOLDEN}/plain_onnx_initializers/graph.onnx", "--input", f"x={scratch}/x.npy",
                       "--server", server.address, "--precision", "fp16", "--json"]
            report = json.loads(run(command).stdout)
            self.assertEqual(report["precision"], "fp16")
            self.assertGreaterEqual(report["underflows"], 16)


if __name__ == "__main__":
    unittest.main(verbosity=2)
