"""The examples of `jacserve jacobian --help`, run as they stand there."""
import json
import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import unittest

import numpy as np

from cluster import BIN, GOLDEN, Coordinator

CASE = os.path.join(GOLDEN, "seed_architecture_narrow")


def save_safetensors(path, arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def examples():
    """Command lines, those that go on over a line's end as one."""
    text = subprocess.run([f"{BIN}/jacserve", "jacobian", "--help"], capture_output=True, text=True, check=True).stdout
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.startswith("    jacserve ")]


class Help(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        arrays, weights = np.load(f"{CASE}/inputs.npz"), np.load(f"{CASE}/weights.npz")
        for name, array in (("images", arrays["x"]), ("a", arrays["x"]), ("b", arrays["y"])):
            np.save(f"{self.folder}/{name}.npy", array)
        save_safetensors(f"{self.folder}/net.safetensors", dict(weights))
        for source, name in (("graph.onnx", "net.onnx"), ("weights.npz", "w.npz"), ("expected.npz", "expected.npz")):
            shutil.copy(f"{CASE}/{source}", f"{self.folder}/{name}")

    def test_every_example_runs(self):
        lines = examples()
        self.assertGreaterEqual(len(lines), 3)
        with Coordinator(workers=1) as coordinator:
            for line in lines:
                with self.subTest(line):
                    words = [coordinator.address if word == "localhost:50051" else word for word in shlex.split(line)]
                    done = subprocess.run([f"{BIN}/jacserve", *words[1:]], cwd=self.folder, capture_output=True,
                                          text=True, env={**os.environ, "JACSERVE_SERVER": coordinator.address})
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
