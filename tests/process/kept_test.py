"""A request that comes again is answered from the program that the worker kept, with the same bits; and no other is."""
import os
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from cluster import GOLDEN, Coordinator, ResultFolders, Worker, run, scrape, wait_until

CASE = os.path.join(GOLDEN, "mlp_tanh")


class Kept(ResultFolders):
    def setUp(self):
        super().setUp()
        self.x = self.out("x.npy")
        np.save(self.x, np.load(f"{CASE}/inputs.npz")["x"])

    def weights(self, name, change=0.0):
        """A file of the case's weights, one number of them changed."""
        weights = dict(np.load(f"{CASE}/weights.npz"))
        first = sorted(weights)[0]
        weights[first] = weights[first].copy()
        weights[first].flat[0] += change
        np.savez(self.out(name), **weights)
        return self.out(name)

    def compute(self, server, weights, name, *more):
        run(["jacobian", f"{CASE}/graph.onnx", "--weights", weights, "--input", f"x={self.x}", "--server", server,
             "--out", self.out(name), *more])
        return self.out(name)

    def differs(self, a, b):
        names = [name for name in os.listdir(a) if name.endswith(".npy")]
        return any((np.load(f"{a}/{name}") != np.load(f"{b}/{name}")).any() for name in names)

    def test_same_request_is_compiled_once_and_others_each_for_themselves(self):
        plain, changed = self.weights("plain.npz"), self.weights("changed.npz", 0.25)
        with Coordinator(workers=0) as coordinator, Worker(coordinator, "--threads", "1") as worker:
            wait_until(lambda: any(w["state"] == "ready" for w in coordinator.workers()), "the worker")

            def compiled():
                lines = [line for line in scrape(worker.metrics).splitlines()
                         if line.startswith("jacserve_worker_engines_made_total ")]
                return int(float(lines[0].split()[1]))

            first = self.compute(coordinator.address, plain, "first")
            self.assertEqual(compiled(), 1)
            self.assert_same_folders(first, self.compute(coordinator.address, plain, "again"))
            self.assertEqual(compiled(), 1, "the program was kept")
            other = self.compute(coordinator.address, changed, "other")
            self.assertEqual(compiled(), 2, "a changed weight is another request")
            self.compute(coordinator.address, plain, "double", "--precision", "fp64")
            self.assertEqual(compiled(), 3, "so is another precision")
            self.assert_same_folders(first, self.compute(coordinator.address, plain, "third"))
            self.assert_same_folders(other, self.compute(coordinator.address, changed, "fourth"))
            self.assertEqual(compiled(), 3, "all three were kept")
        self.assertTrue(self.differs(first, other), "the weight has an effect")
        with Coordinator(workers=1) as fresh:
            self.assert_same_folders(first, self.compute(fresh.address, plain, "fresh"))
            self.assert_same_folders(other, self.compute(fresh.address, changed, "fresh other"))

    def test_requests_at_once_get_each_their_own_rows(self):
        files = [self.weights(f"w{k}.npz", 0.1 * k) for k in range(4)]
        with Coordinator(workers=2) as coordinator:
            alone = [self.compute(coordinator.address, file, f"alone{k}") for k, file in enumerate(files)]
            with ThreadPoolExecutor(4) as pool:
                jobs = [pool.submit(self.compute, coordinator.address, files[n % 4], f"busy{n}") for n in range(24)]
                for n, job in enumerate(jobs):
                    self.assert_same_folders(alone[n % 4], job.result())


if __name__ == "__main__":
    unittest.main(verbosity=2)
