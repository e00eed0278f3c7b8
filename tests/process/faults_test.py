"""Faults in real processes: nothing is lost, the result is the same bit for bit, nothing is left behind."""
import json
import os
import signal
import unittest

from cluster import (Coordinator, ResultFolders, alive, children, go_on, result, run, seed_arguments, start, stop,
                     wait_until)

ROWS = ["--rows", "0:1024"]
SMALL_BLOCKS = ["--wrt", "Conv*", "--wrt", "dense1.*"]  # 0.4 MB a row


class Faults(ResultFolders):
    def wait_for_rows(self, coordinator, more_than=0):
        return wait_until(lambda: coordinator.rows_relayed() > more_than, "rows on their way")

    def test_worker_killed_mid_job_leaves_the_result_identical(self):
        with Coordinator() as coordinator:
            whole = result(start(seed_arguments(coordinator.address, *ROWS, *SMALL_BLOCKS, "--out", self.out("a"))))
            self.assertEqual(whole["shards_retried"], 0)
            before = coordinator.rows_relayed()
            job = start(seed_arguments(coordinator.address, *ROWS, *SMALL_BLOCKS, "--out", self.out("b")))
            self.wait_for_rows(coordinator, before)
            os.kill(children(coordinator.process.pid)[0], signal.SIGKILL)
            self.assertEqual(result(job)["rows"], 1024)
            self.assert_same_folders(self.out("a"), self.out("b"))
            wait_until(lambda: sum(w["state"] == "ready" for w in coordinator.workers()) == 2, "a new worker")

    def test_client_killed_mid_job_goes_on_with_the_missing_rows(self):
        with Coordinator() as coordinator:
            result(start(seed_arguments(coordinator.address, *ROWS, *SMALL_BLOCKS, "--out", self.out("a"))))
            before = coordinator.rows_relayed()
            job = start(seed_arguments(coordinator.address, *ROWS, *SMALL_BLOCKS, "--out", self.out("b")))
            self.wait_for_rows(coordinator, before + 100)
            job.kill()
            job.communicate()
            self.assertNotIn("index.json", os.listdir(self.out("b")))
            wait_until(lambda: not any(w["busy"] for w in coordinator.workers()), "idle workers")
            again = result(start(seed_arguments(coordinator.address, *ROWS, *SMALL_BLOCKS, "--out", self.out("b"))))
            self.assertEqual(again["rows"], 1024)
            self.assert_same_folders(self.out("a"), self.out("b"))

    def test_slow_reader_does_not_stop_another(self):
        with Coordinator() as coordinator:
            slow = start(seed_arguments(coordinator.address, "--rows", "0:512", "--out", "none"))
            self.wait_for_rows(coordinator)
            stop(slow)
            other = result(start(seed_arguments(coordinator.address, "--rows", "0:256", *SMALL_BLOCKS, "--out", "none")))
            self.assertEqual(other["rows"], 256)
            self.assertIsNone(slow.poll(), "the slow one still waits")
            go_on(slow)
            self.assertEqual(result(slow)["rows"], 512)

    def test_uploads_survive_a_killed_coordinator(self):
        state = self.out("state")
        with Coordinator(state_dir=state) as coordinator:
            result(start(seed_arguments(coordinator.address, "--rows", "0:8", "--out", "none")))
            held = coordinator.info()["store_bytes"]
            self.assertGreater(held, 7 * 10**6)
            workers = children(coordinator.process.pid)
            coordinator.kill()
            wait_until(lambda: not any(alive(worker) for worker in workers), "workers end with their coordinator", 10)
        with Coordinator(state_dir=state) as coordinator:
            self.assertEqual(coordinator.info()["store_bytes"], held)
            result(start(seed_arguments(coordinator.address, "--rows", "0:8", "--out", "none")))
            self.assertEqual(coordinator.info()["store_bytes"], held)

    def test_sigterm_lets_the_running_job_finish_and_takes_no_other(self):
        with Coordinator() as coordinator:
            job = start(seed_arguments(coordinator.address, "--rows", "0:1024", "--out", "none"))
            self.wait_for_rows(coordinator)
            stop(job)  # keeps it running while the next one asks
            coordinator.process.terminate()
            wait_until(lambda: coordinator.info()["draining"], "draining")
            go_on(job)
            self.assertEqual(result(job)["rows"], 1024)
            self.assertEqual(coordinator.process.wait(60), 0)

    def test_two_coordinators_on_one_folder_are_refused(self):
        with Coordinator(workers=0, state_dir=self.out("state")):
            with self.assertRaises(Exception):
                with Coordinator(workers=0, state_dir=self.out("state")):
                    pass

    def test_no_worker_is_an_answer(self):
        with Coordinator(workers=0) as coordinator:
            done = run(seed_arguments(coordinator.address, "--out", "none"), check=False)
            self.assertEqual(done.returncode, 3)
            self.assertIn("no worker", json.loads(done.stdout.splitlines()[-1])["error"]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
