"""Real programs for tests: a coordinator with local workers, the command line, and what can be seen of them.

Programs come from $JACSERVE_BIN, cases from $JACSERVE_GOLDEN.
"""
import filecmp
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

BIN = os.environ["JACSERVE_BIN"]
GOLDEN = os.environ["JACSERVE_GOLDEN"]
SEED = os.path.join(GOLDEN, "seed_full")


def wait_until(condition, what, seconds=60):
    """The first true value of condition(); AssertionError when none comes in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid):
    """Process ids of the living children."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += [int(child) for child in file.read().split()]
    return [child for child in found if alive(child)]


class Coordinator:
    """jacserve-coordinator with local workers on free ports; its state folder may be handed to the next one.

    `ready`: workers to wait for, where `workers` does not say it. `client`: what the command line needs to be let in.
    """

    def __init__(self, workers=2, state_dir=None, budget="512MiB", extra=(), ready=None, environment=None, client=(),
                 wait=True):
        self._client = client
        self._folder = tempfile.TemporaryDirectory()
        self.state_dir = state_dir or os.path.join(self._folder.name, "state")
        port_file = os.path.join(self._folder.name, "port")
        self.metrics = f"127.0.0.1:{free_port()}"
        self.log = open(os.path.join(self._folder.name, "log"), "w+")
        self.process = subprocess.Popen(
            [f"{BIN}/jacserve-coordinator", "--listen", "127.0.0.1:0", "--port-file", port_file, "--state-dir",
             self.state_dir, "--local-workers", str(workers), "--worker-memory-budget", budget, "--metrics-listen",
             self.metrics, *extra], stdout=self.log, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        wait_until(lambda: os.path.exists(port_file) or self.process.poll() is not None, "coordinator's port")
        with open(port_file) as file:
            self.address = "127.0.0.1:" + file.read().strip()
        if wait:
            wait_until(lambda: sum(w["state"] == "ready" for w in self.workers()) == (ready or workers), "workers")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.log.close()
        self._folder.cleanup()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def workers(self):
        asked = run(["workers", "--server", self.address, "--json", *self._client])
        return json.loads(asked.stdout.splitlines()[-1])["workers"]

    def info(self):
        return json.loads(run(["info", "--server", self.address, "--json"]).stdout.splitlines()[-1])

    def scrape(self):
        return scrape(self.metrics)

    def metric(self, name):
        """Sum over labels; 0 when it is not there yet."""
        lines = [line for line in self.scrape().splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def rows_relayed(self):
        return self.metric("jacserve_rows_delivered_total")


class ResultFolders(unittest.TestCase):
    """A folder for each test's results, and what is asked of them."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def out(self, name):
        return os.path.join(self.folder.name, name)

    def assert_same_folders(self, a, b):
        names = sorted(name for name in os.listdir(a) if name.endswith(".npy"))
        self.assertEqual(names, sorted(name for name in os.listdir(b) if name.endswith(".npy")))
        for name in names:
            self.assertTrue(filecmp.cmp(os.path.join(a, name), os.path.join(b, name), shallow=False), name)


class Worker:
    """jacserve-worker that dials a coordinator over TCP, as on another machine."""

    def __init__(self, coordinator, *extra, programs=BIN, environment=None):
        self.metrics = f"127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [f"{programs}/jacserve-worker", "--coordinator", coordinator.address, "--listen", "127.0.0.1:0", "--id", "far",
             "--metrics-listen", self.metrics, "--log-level", "warning", *extra], env={**os.environ, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def scrape(self):
        return scrape(self.metrics)


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        return answer.read().decode()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(arguments, check=True, timeout=300):
    done = subprocess.run([f"{BIN}/jacserve", *arguments], capture_output=True, text=True, timeout=timeout)
    if check and done.returncode:
        raise AssertionError(f"jacserve {' '.join(arguments)}: status {done.returncode}: {done.stderr[-2000:]}")
    return done


def start(arguments):
    return subprocess.Popen([f"{BIN}/jacserve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def seed_arguments(server, *more):
    """The seed's Jacobian at full size through this server."""
    return ["jacobian", f"{SEED}/graph.onnx", "--weights", f"{SEED}/weights.npz", "--input", f"x={SEED}/x.npy",
            "--second", f"x={SEED}/y.npy", "--pairwise", "cosine", "--sign", "-1", "--epsilon", "1e-12",
            "--cosine-form", "sqrt_max_sum", "--server", server, "--json", *more]


def result(process, timeout=300):
    """The JSON object of a command that was started; AssertionError when it failed."""
    out, err = process.communicate(timeout=timeout)
    if process.returncode:
        raise AssertionError(f"status {process.returncode}: {out[-500:]} {err[-2000:]}")
    return json.loads(out.strip().splitlines()[-1])


def stop(process):
    os.kill(process.pid, signal.SIGSTOP)


def go_on(process):
    os.kill(process.pid, signal.SIGCONT)
