"""Memory and metrics of real processes: bounded whatever passes through them, named as Prometheus wants it."""
import json
import re
import shutil
import subprocess
import unittest

from cluster import SEED, Coordinator, Worker, result, seed_arguments, start, wait_until

MIB = 2**20


class Limits(unittest.TestCase):
    def test_memory_is_bounded_by_the_budget_and_not_by_the_jacobian(self):
        with Coordinator(budget="512MiB") as coordinator:
            job = start(seed_arguments(coordinator.address, "--rows", "0:1024", "--out", "none", "--verify",
                                       f"{SEED}/expected.npz"))
            answer = result(job)
        self.assertTrue(answer["verification"]["passed"])
        self.assertGreater(answer["bytes"], 4 * 10**9)
        limits = {"worker": 640 * MIB, "coordinator": 128 * MIB, "client": 128 * MIB}
        for process in answer["processes"]:
            self.assertLessEqual(process["peak_rss_bytes"], limits[process["role"]], process)

    def test_budget_that_is_too_small_says_which_one_works(self):
        def answer(budget):
            with Coordinator(budget=budget) as coordinator:
                job = start(seed_arguments(coordinator.address, "--rows", "0:8", "--out", "none"))
                out, _ = job.communicate(timeout=120)
                return job.returncode, json.loads(out.splitlines()[-1])

        code, refusal = answer("20MiB")
        self.assertEqual(code, 5)
        smallest = re.search(r"the smallest that works is .* \((\d+) bytes\)", refusal["error"]["message"])
        self.assertIsNotNone(smallest, refusal)
        code, done = answer(smallest.group(1))
        self.assertEqual(code, 0, done)
        self.assertEqual(done["rows"], 8)
        self.assertEqual(answer(str(int(smallest.group(1)) - 8))[0], 5, "a little less does not")

    def test_job_goes_to_the_worker_that_has_the_memory(self):
        with Coordinator(workers=1, budget="20MiB") as coordinator:
            command = seed_arguments(coordinator.address, "--rows", "0:64", "--wrt", "Conv*", "--out", "none")
            out, _ = (alone := start(command)).communicate(timeout=120)
            self.assertEqual(alone.returncode, 5)
            self.assertRegex(json.loads(out.splitlines()[-1])["error"]["message"],
                             r"; the smallest that works is .* of it, the most for node \S+ \(\w+\)$")
            with Worker(coordinator, "--memory-budget", "22MiB"):
                wait_until(lambda: sum(w["state"] == "ready" for w in coordinator.workers()) == 2, "the second worker")
                out, _ = start(command).communicate(timeout=120)
                self.assertIn("the largest among the workers is that of far, 22.0 MiB",
                              json.loads(out.splitlines()[-1])["error"]["message"])
            with Worker(coordinator, "--memory-budget", "512MiB"):
                wait_until(lambda: any(w["state"] == "ready" and w["memory_budget_bytes"] == 512 * MIB
                                       for w in coordinator.workers()), "the larger worker")
                for _ in range(3):  # whichever is asked first
                    answer = result(start(command))
                    self.assertEqual(answer["rows"], 64)
                    self.assertEqual(answer["shards_retried"], 0)

    def lint(self, text, names):
        for name in names:
            self.assertIn(name, text)
        promtool = shutil.which("promtool")
        self.assertIsNotNone(promtool, "promtool comes with the prometheus package")
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_metrics_of_coordinator_and_of_a_worker_that_joined_are_well_named(self):
        with Coordinator(workers=0) as coordinator, Worker(coordinator) as worker:
            wait_until(lambda: any(w["state"] == "ready" for w in coordinator.workers()), "the worker")
            result(start(seed_arguments(coordinator.address, "--rows", "0:64", "--wrt", "Conv*", "--out", "none")))
            self.lint(coordinator.scrape(), ("jacserve_jobs_ended_total", "jacserve_rows_delivered_total",
                                             "jacserve_rpcs_total", "jacserve_store_bytes"))
            self.lint(worker.scrape(), ("jacserve_worker_rows_total", "jacserve_worker_memory_budget_bytes",
                                        "jacserve_rpcs_total"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
