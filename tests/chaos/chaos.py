"""Faults at random under several clients: every row that arrives is right, and nothing is left behind.

usage: chaos.py [--seconds S] [--seed N] [--clients C] [--workers W]; status 1 when a row was wrong, a job did not end,
or something was left. The seed is printed: it decides which faults come, and when, though not what they meet.
"""
import argparse
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

import numpy as np  # noqa: E402
from cluster import Coordinator, result, seed_arguments, start  # noqa: E402
from world import World, pause  # noqa: E402

WRT = ["--wrt", "Conv*", "--wrt", "dense1.*"]  # 0.4 MB a row
MOST_ROWS = 512
MOST_TRIES = 40  # of one job, each by a process of its own


class Jobs(threading.Thread):
    """One client: a job after another, each in a folder of its own, compared with the rows of an undisturbed run."""

    def __init__(self, number, world, folder, right, seed, until):
        super().__init__()
        self.random = random.Random(seed * 1000 + number)
        self.address, self.right, self.until = world.door.address, right, until
        self.out = os.path.join(folder, f"client{number}")
        self.process = None
        self.jobs = self.rows = self.wrong = 0
        self.failures = []

    def run(self):
        while time.monotonic() < self.until:
            begin = self.random.randrange(MOST_ROWS - 8)
            end = min(MOST_ROWS, begin + self.random.choice((8, 64, 256)))
            if self.finish(begin, end):
                self.check(begin, end)
            shutil.rmtree(self.out, ignore_errors=True)

    def finish(self, begin, end):
        """The same command until it succeeds: killed or without a server, it goes on where it was."""
        for _ in range(MOST_TRIES):
            command = seed_arguments(self.address, *WRT, "--rows", f"{begin}:{end}", "--out", self.out)
            self.process = start(command)
            out, err = self.process.communicate(timeout=300)
            code = self.process.returncode
            if code == 0:
                return True
            if code not in (-9, 3):  # killed, or no server for too long
                self.failures.append(f"rows {begin}:{end}: status {code}: {err.strip()[-300:]}")
                return False
            time.sleep(0.2)
        self.failures.append(f"rows {begin}:{end}: not done after {MOST_TRIES} tries: {err.strip()[-300:]}")
        return False

    def check(self, begin, end):
        self.jobs += 1
        self.rows += end - begin
        same = np.full(end - begin, np.array_equal(np.load(os.path.join(self.out, "value.npy")), self.right["value.npy"]))
        for name in self.right.keys() - {"value.npy"}:
            rows = np.load(os.path.join(self.out, name), mmap_mode="r").reshape(end - begin, -1)
            same &= (rows.view(np.uint32) == self.right[name][begin:end].view(np.uint32)).all(axis=1)
        self.wrong += int((~same).sum())


class Faults:
    """What may happen to the world, each for a moment."""

    def __init__(self, world, clients, seed):
        self.world, self.clients, self.random = world, clients, random.Random(seed)
        self.counts = collections.Counter()
        self.kinds = [self.worker_killed, self.worker_stopped, self.coordinator_killed, self.client_killed,
                      self.connections_cut, self.network_held_up]

    def strike(self):
        kind = self.random.choice(self.kinds)
        kind()
        self.counts[kind.__name__.replace("_", " ")] += 1

    def worker_killed(self):
        worker = self.random.choice(self.world.workers)
        worker.kill()
        time.sleep(self.random.uniform(0, 1))
        worker.start()

    def worker_stopped(self):
        """At times for longer than its silence is borne."""
        pause(self.random.choice(self.world.workers).process, self.random.choice((0.3, 1, 5)))

    def coordinator_killed(self):
        self.world.coordinator.kill()
        time.sleep(self.random.uniform(0, 0.5))
        self.world.coordinator.start()

    def client_killed(self):
        process = self.random.choice(self.clients).process
        if process is not None and process.poll() is None:
            process.kill()

    def connections_cut(self):
        self.random.choice(self.world.proxies()).cut()

    def network_held_up(self):
        proxy = self.random.choice(self.world.proxies())
        proxy.hold()
        time.sleep(self.random.choice((0.2, 1, 4)))
        proxy.go_on()


def undisturbed_rows(folder):
    """Blocks by file name, of rows 0 to MOST_ROWS."""
    out = os.path.join(folder, "undisturbed")
    with Coordinator(2) as coordinator:
        result(start(seed_arguments(coordinator.address, *WRT, "--rows", f"0:{MOST_ROWS}", "--out", out)))
    arrays = {name: np.load(os.path.join(out, name)) for name in sorted(os.listdir(out)) if name.endswith(".npy")}
    return {name: array if name == "value.npy" else array.reshape(MOST_ROWS, -1) for name, array in arrays.items()}


def leftovers(world, folder):
    """Files that no run should leave: uploads half done, results half written."""
    left = []
    for root in (world.state, *(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("client"))):
        for path, folders, files in os.walk(root):
            left += [os.path.join(path, name) for name in (*folders, *files) if name.endswith(".part")]
    return left


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("JACSERVE_CHAOS_SECONDS", 40)))
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        right = undisturbed_rows(folder)
        world = World(folder, options.workers)
        until = time.monotonic() + options.seconds
        clients = [Jobs(i, world, folder, right, options.seed, until) for i in range(options.clients)]
        for client in clients:
            client.start()
        faults = Faults(world, clients, options.seed)
        while time.monotonic() < until:
            time.sleep(faults.random.uniform(0.1, 1.5))
            faults.strike()
        for client in clients:
            client.join()
        dead = sum(not program.alive() for program in world.programs())
        killed = world.end()
        left = leftovers(world, folder)
        failures = [failure for client in clients for failure in client.failures]
        wrong = sum(client.wrong for client in clients)
        print("faults: " + ", ".join(f"{count} x {kind}" for kind, count in sorted(faults.counts.items())))
        print(f"jobs {sum(c.jobs for c in clients)}, rows verified {sum(c.rows for c in clients)}, rows wrong {wrong}, "
              f"jobs failed {len(failures)}, programs that ended by themselves {dead}, that did not end {killed}, "
              f"files left {len(left)}")
        for line in (*failures, *left):
            print(line)
        if wrong or failures or dead or killed or left:
            for name in sorted(os.listdir(folder)):
                if name.endswith(".log"):
                    print(f"--- {name}\n" + open(os.path.join(folder, name)).read()[-3000:])
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
