"""The check on a GPU, on the simulated one: the script, what it writes, and that it notices wrong numbers."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SIM_BIN, SOURCE = os.environ["JACSERVE_SIM_BIN"], os.environ["JACSERVE_SOURCE"]
GOLDEN = f"{SOURCE}/tests/golden"
SCRIPT = f"{SOURCE}/bench/gpu_check/gpu_check.py"
CASES = ["cnn_maxpool_ties", "coupled_batch", "grouped_dilated_avgpool", "layernorm_gelu", "pairwise_keras_cosine"]


def damage(path, array):
    """In an expected.npz, the last number of this array becomes another."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    data = bytearray(files[f"{array}.npy"])
    data[-1] ^= 0x40  # a bit of its exponent
    files[f"{array}.npy"] = bytes(data)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.golden, self.out = f"{self.scratch.name}/golden", f"{self.scratch.name}/out"
        os.mkdir(self.golden)
        self.addCleanup(self.scratch.cleanup)

    def take(self, *names):
        for name in names:
            shutil.copytree(f"{GOLDEN}/{name}", f"{self.golden}/{name}")

    def check(self, *options, **environment):
        command = [sys.executable, SCRIPT, "--quick", "--programs", SIM_BIN, "--golden", self.golden, "--out", self.out]
        command += options
        return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=500)

    def results(self):
        with open(f"{self.out}/gpu_check.json") as file:
            results = json.load(file)
        with open(f"{self.out}/gpu_check.txt") as file:
            return results, file.read()

    def test_right_numbers_are_said_to_be_right_with_every_figure(self):
        self.take(*CASES, "seed_full")
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results, text = self.results()
        self.assertEqual(results["failures"], [])
        self.assertIn("All numbers are right.", text)
        self.assertEqual({(one["case"], one["precision"]) for one in results["cases"]},
                         {(name, precision) for name in CASES for precision in ("fp32", "fp64", "tf32", "fp16")
                          if name != "coupled_batch" or precision in ("fp32", "fp64")})
        for one in results["cases"]:
            if one["precision"] == "fp64":
                self.assertLess(one["worst_error"], 1e-9, one["case"])
                self.assertTrue(one["same_bits"], one["case"])
        seed = results["seed_full"]
        self.assertLess(seed["fp32"]["worst_error"], 1e-4)
        self.assertGreater(seed["tf32"]["worst_error"], seed["fp32"]["worst_error"])
        self.assertEqual(seed["discarded"]["rows"], 16)
        self.assertGreater(seed["copied"]["flops"], 0)
        for one in results["budgets"]:
            self.assertLessEqual(one["peak_device_bytes"], one["budget_bytes"])
            self.assertGreater(one["peak_device_bytes"], 10 << 20)
        states = [one["state"] for one in results["goals"]]
        self.assertEqual(states, ["not measured", "not measured", "met"], "a few rows say nothing of speed")
        for words in ("Simulated GPU", "largest errors", "budget 256 MiB", "not measured", "limits: sgemm"):
            self.assertIn(words, text)

    def test_a_wrong_number_is_named_and_fails_the_check(self):
        self.take("mlp_tanh")
        damage(f"{self.golden}/mlp_tanh/expected.npz", "0.weight")
        done = self.check("--parts", "cases")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        results, text = self.results()
        self.assertEqual(len(results["failures"]), 2, results["failures"])
        for precision, failure in zip(("fp32", "fp64"), results["failures"]):
            self.assertIn(f"mlp_tanh in {precision}", failure)
            self.assertIn("WRONG: 0.weight differs by", failure)
        self.assertIn("WRONG:", text)
        self.assertNotIn("All numbers are right", text)

    def test_a_broken_gpu_fails_the_check(self):
        self.take("mlp_tanh")
        done = self.check("--parts", "cases", JACSERVE_SIM_FAULT="sticky=40")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("mlp_tanh in fp32 ... FAILED: the GPU failed", done.stdout)

    def test_without_a_driver_it_says_so(self):
        done = self.check(JACSERVE_SIM_DEVICES="no-driver")
        self.assertEqual(done.returncode, 2)
        self.assertIn("There is no GPU to check: there is no NVIDIA driver", done.stdout)
        self.assertFalse(os.path.exists(f"{self.out}/gpu_check.json"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
