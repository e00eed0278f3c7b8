"""A coordinator and workers in processes of their own that can be killed, stopped and cut off from each other.

Programs come from $JACSERVE_BIN.
"""
import os
import signal
import subprocess
import time

from cluster import BIN, free_port
from proxy import Proxy


class Program:
    """One process that is started again as it was."""

    def __init__(self, command, log):
        self._command, self._log = command, log
        self.start()

    def start(self):
        with open(self._log, "a") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def alive(self):
        return self.process.poll() is None


class Worker(Program):
    """Its coordinator reaches it through a proxy, and it the coordinator through another."""

    def __init__(self, name, coordinator, folder):
        listen = f"127.0.0.1:{free_port()}"
        self.inward, self.outward = Proxy(listen), Proxy(coordinator)
        super().__init__([f"{BIN}/jacserve-worker", "--id", name, "--listen", listen, "--advertise", self.inward.address,
                          "--coordinator", self.outward.address, "--threads", "1", "--memory-budget", "256MiB"],
                         os.path.join(folder, f"{name}.log"))


class World:
    def __init__(self, folder, workers):
        self.state = os.path.join(folder, "state")
        address = f"127.0.0.1:{free_port()}"
        self.coordinator = Program([f"{BIN}/jacserve-coordinator", "--listen", address, "--state-dir", self.state],
                                   os.path.join(folder, "coordinator.log"))
        self.door = Proxy(address)  # for clients
        self.workers = [Worker(f"w{i}", address, folder) for i in range(workers)]

    def programs(self):
        return [self.coordinator, *self.workers]

    def proxies(self):
        return [self.door, *(proxy for worker in self.workers for proxy in (worker.inward, worker.outward))]

    def end(self):
        """In good order; the number of processes that had to be killed."""
        killed = 0
        for program in reversed(self.programs()):
            program.process.send_signal(signal.SIGTERM)
            try:
                program.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                program.kill()
                killed += 1
        for proxy in self.proxies():
            proxy.close()
        return killed


def pause(process, seconds):
    """The process stands still for a while."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGCONT)
