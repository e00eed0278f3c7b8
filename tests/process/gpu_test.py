"""GPU workers in real processes, on simulated GPUs: one worker sees one GPU, and a broken one is replaced.

The worker program with the simulation is in $JACSERVE_SIM_BIN.
"""
import os
import subprocess
import unittest

from cluster import Coordinator, ResultFolders, Worker, children, result, seed_arguments, start, wait_until

SIM_BIN = os.environ["JACSERVE_SIM_BIN"]
ROWS = ["--rows", "0:96", "--wrt", "Conv*", "--wrt", "dense1.*"]


def gpus(count, **more):
    return {"JACSERVE_BIN": SIM_BIN, "JACSERVE_SIM_DEVICES": str(count), **more}


def environment_of(pid):
    with open(f"/proc/{pid}/environ") as file:
        return dict(entry.split("=", 1) for entry in file.read().split("\0") if "=" in entry)


class Gpus(ResultFolders):
    def compute(self, coordinator, name):
        return result(start(seed_arguments(coordinator.address, *ROWS, "--out", self.out(name))))

    def test_each_worker_sees_one_gpu_and_the_rows_do_not_depend_on_how_many_there_are(self):
        for count, name in ((1, "one"), (2, "two")):
            with Coordinator("auto", ready=count, budget="25%", environment=gpus(count)) as coordinator:
                workers = coordinator.workers()
                self.assertEqual({worker["backend"] for worker in workers}, {"cuda"})
                self.assertEqual({worker["device"] for worker in workers}, {"Simulated GPU"})
                uuids = {worker["gpu"]["uuid"] for worker in workers}
                self.assertEqual(len(uuids), count)
                seen = [environment_of(pid) for pid in children(coordinator.process.pid)]
                self.assertEqual({one["CUDA_VISIBLE_DEVICES"] for one in seen}, uuids)
                self.assertEqual({one["CUDA_DEVICE_ORDER"] for one in seen}, {"PCI_BUS_ID"})
                self.assertTrue(all(0 < w["memory_budget_bytes"] <= w["gpu"]["memory_bytes"] // 4 for w in workers))
                self.assertEqual(self.compute(coordinator, name)["backend"], "cuda")
        self.assert_same_folders(self.out("one"), self.out("two"))

    def test_worker_with_a_broken_context_is_replaced_and_the_rows_are_the_same(self):
        with Coordinator("auto", ready=1, budget="25%", environment=gpus(1)) as coordinator:
            self.compute(coordinator, "whole")
        fault = f"sticky=300,once={self.out('broken')}"
        with Coordinator("auto", ready=1, budget="25%", environment=gpus(1, JACSERVE_SIM_FAULT=fault)) as coordinator:
            before = children(coordinator.process.pid)
            self.compute(coordinator, "again")
            self.assertTrue(os.path.exists(self.out("broken")), "the fault happened")
            self.assertNotEqual(children(coordinator.process.pid), before)
        self.assert_same_folders(self.out("whole"), self.out("again"))

    def test_without_a_driver_auto_computes_on_the_cpu_and_cuda_says_what_is_missing(self):
        cores = len(os.sched_getaffinity(0))
        workers = cores if cores <= 2 else min((cores + 1) // 2, 16)
        with Coordinator("auto", ready=workers, environment=gpus("no-driver")) as coordinator:
            self.assertEqual({worker["backend"] for worker in coordinator.workers()}, {"cpu"})
        done = subprocess.run([f"{os.environ['JACSERVE_BIN']}/jacserve-coordinator", "--state-dir", self.out("state"),
                               "--listen", "127.0.0.1:0", "--local-workers", "auto", "--device", "cuda"],
                              env={**os.environ, **gpus("no-driver")}, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--device cuda: ", done.stderr)

    def test_tf32_is_computed_on_gpus_and_refused_by_other_workers(self):
        asked = ["--rows", "0:4", "--wrt", "dense1.*", "--precision", "tf32"]
        with Coordinator("auto", ready=1, budget="25%", environment=gpus(1)) as coordinator:
            report = result(start(seed_arguments(coordinator.address, *asked, "--out", self.out("tf32"))))
            self.assertEqual(report["precision"], "tf32")
        with Coordinator(1) as coordinator:
            process = start(seed_arguments(coordinator.address, *asked, "--out", self.out("none")))
            _, said = process.communicate(timeout=120)
            self.assertNotEqual(process.returncode, 0)
            self.assertIn("precision tf32 is a GPU's, and the backend here is cpu", said)

    def test_beside_other_workers_the_gpu_gets_what_is_its_own_and_a_job_is_of_one_backend(self):
        with Coordinator(1) as coordinator:
            gpu = ["--device", "cuda", "--memory-budget", "25%"]
            with Worker(coordinator, *gpu, programs=SIM_BIN, environment=gpus(1)):
                wait_until(lambda: sum(w["state"] == "ready" for w in coordinator.workers()) == 2, "the GPU's worker")
                tf32 = ["--rows", "0:4", "--wrt", "dense1.*", "--precision", "tf32"]
                report = result(start(seed_arguments(coordinator.address, *tf32, "--out", self.out("tf32"))))
                self.assertEqual((report["precision"], report["backend"]), ("tf32", "cuda"))
                self.assertEqual(self.compute(coordinator, "mixed")["backend"], "cuda")
            self.assertEqual(self.compute(coordinator, "cpu")["backend"], "cpu")
        with Coordinator("auto", ready=1, budget="25%", environment=gpus(1)) as coordinator:
            self.compute(coordinator, "alone")
        self.assert_same_folders(self.out("mixed"), self.out("alone"))

    def test_worker_that_sees_two_gpus_refuses_to_start(self):
        done = subprocess.run([f"{SIM_BIN}/jacserve-worker", "--coordinator", "127.0.0.1:1", "--device", "cuda"],
                              env={**os.environ, **gpus(2)}, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("this process sees 2 GPUs", done.stderr)


if __name__ == "__main__":
    unittest.main()
