"""The bundle of `make gpu-check`: small, complete, and it runs wherever it is unpacked. Here no GPU is shown to it."""
import os
import subprocess
import sys
import tempfile
import unittest

BIN, SOURCE = os.environ["JACSERVE_BIN"], os.environ["JACSERVE_SOURCE"]


class Bundle(unittest.TestCase):
    def test_it_is_small_and_runs_wherever_it_is_unpacked(self):
        with tempfile.TemporaryDirectory() as scratch:
            archive, folder = f"{scratch}/check.tar.gz", f"{scratch}/jacserve-gpu-check"
            subprocess.run([sys.executable, f"{SOURCE}/bench/gpu_check/make_bundle.py", BIN, SOURCE, archive], check=True)
            self.assertLess(os.path.getsize(archive), 48 << 20)
            subprocess.run(["tar", "xf", archive, "-C", scratch], check=True)
            listed = subprocess.run(["ldd", f"{folder}/bin/gpu_check"], env={}, capture_output=True, text=True).stdout
            self.assertIn(f"=> {folder}/", listed)
            for line in listed.splitlines():
                if "=>" in line:
                    self.assertRegex(line, rf"=> {folder}/|=> /lib\S*/lib(c|m|dl|rt|pthread)\.so", "is not in the bundle")
            done = subprocess.run([sys.executable, f"{folder}/gpu_check.py", "--quick"], cwd=scratch, timeout=60,
                                  env={"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("There is no GPU to check: ", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
