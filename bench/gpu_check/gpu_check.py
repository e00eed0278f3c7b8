"""Checks jacserve on this machine's GPU: numbers, bits, memory, speed. One line for each step; gpu_check.json and
gpu_check.txt at the end. Needs nothing but Python, the NVIDIA driver, and CUDA 13's cudart and cuBLAS.

usage: gpu_check.py [--quick] [--parts cases,...] [--out FOLDER]. Status 0: all numbers are right, goals met or not; 1: some are wrong, or a
step failed; 2: there is no GPU to check. Other programs on the GPU spoil times and memory.
"""
import argparse
import glob
import json
import os
import platform
import shutil
import subprocess
import sys
import time

import summary

HERE = os.path.dirname(os.path.abspath(__file__))
MIB, GIB = 1 << 20, 1 << 30
NO_GPU = 2
PARTS = ("limits", "cases", "seed", "budgets", "sanitizer", "peers")
# Its terms cancel: always computed in float64, and 16 bits leave nothing of the difference.
COUPLED = "coupled_batch"
SANITIZED = ("cnn_maxpool_ties", "layernorm_gelu", "pairwise_keras_cosine", "grouped_dilated_avgpool")


class Failed(Exception):
    """A step that gave no result; `status` is the program's."""

    def __init__(self, words, status=None):
        super().__init__(words)
        self.status = status


class Check:
    def __init__(self, arguments):
        self.quick = arguments.quick
        self.programs, self.golden = arguments.programs, arguments.golden
        self.seed_rows = 16 if self.quick else 0
        folders = [os.path.join(HERE, "lib"), *glob.glob("/usr/local/cuda*/lib64"),
                   *(found for place in sys.path for found in glob.glob(os.path.join(place, "nvidia", "*", "lib")))]
        known = os.environ.get("LD_LIBRARY_PATH")
        self.environment = {**os.environ, "JACSERVE_GOLDEN": self.golden,
                            "LD_LIBRARY_PATH": ":".join(([known] if known else []) + folders)}
        self.results = {"date": time.strftime("%Y-%m-%d"), "system": platform.platform(), "quick": self.quick,
                        "failures": [], "limits": None, "cases": [], "seed_full": {}, "budgets": [], "sanitizer": {},
                        "peers": {}}

    def run(self, program, *arguments, before=(), timeout=3600):
        command = [*before, os.path.join(self.programs, program), *map(str, arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(str(error)) from error
        if done.returncode:
            words = (done.stderr + done.stdout).strip().splitlines()
            raise Failed(words[-1] if words else f"ended with status {done.returncode}", done.returncode)
        return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])

    def step(self, name, work):
        """work() -> (result, words for the line, whether it is right). A failure is kept, and the next step comes."""
        print(f"{name} ...", end=" ", flush=True)
        try:
            result, words, right = work()
        except Failed as failed:
            result, words, right = None, f"FAILED: {failed}", False
        print(words, flush=True)
        if not right:
            self.results["failures"].append(f"{name}: {words}")
        return result

    def compute(self, case, precision, *options):
        return self.run("gpu_check", "compute", case, "--precision", precision, *options)

    def verified(self, case, precision, *options):
        """fp32 and fp64 must be right; of tf32 and fp16 the error is said, and that they are what was asked for."""
        result = self.compute(case, precision, "--verify", *options)
        worst = [block["worst_error"] for block in result["blocks"] if block["figure"]]
        result["worst_error"] = None if None in worst else max(worst)  # None: not finite
        words = f"largest error {summary.number(result['worst_error'])} of a block's largest number"
        if precision in ("fp32", "fp64"):
            right = result["right"] and result.get("same_bits", True)
            wrong = [f"{block['name']} {block['problem']}" for block in result["blocks"] if block["off"]]
            words += "".join("; WRONG: " + one for one in wrong)
            words += "" if result.get("same_bits", True) else "; WRONG: shards have other bits"
        else:
            right = result["half"] or result["tf32"]
            words += "" if right else f"; WRONG: not computed in {precision}"
        return result, words, right

    def cases(self):
        names = sorted(name for name in os.listdir(self.golden) if name != "seed_full" and
                       os.path.exists(os.path.join(self.golden, name, "expected.npz")))
        for name in names:
            for precision in ("fp32", "fp64") if name == COUPLED else ("fp32", "fp64", "tf32", "fp16"):
                options = ["--repeat"] if precision in ("fp32", "fp64") else []
                result = self.step(f"{name} in {precision}", lambda: self.verified(name, precision, *options))
                if result:
                    self.results["cases"].append(result)

    def seed(self):
        found = self.results["seed_full"]
        rows = ["--rows", self.seed_rows] if self.seed_rows else []
        for precision in ("fp32", "tf32", "fp16"):
            found[precision] = self.step(f"seed_full in {precision}, compared on the host",
                                         lambda: self.verified("seed_full", precision, *rows))

        def timed(*options):
            result = self.compute("seed_full", "fp32", *rows, *options)
            return result, f"{result['seconds']:.3f} s for {result['bytes'] / 1e9:.2f} GB", True

        found["discarded"] = self.step("seed_full, rows dropped on the GPU", lambda: timed("--discard"))
        found["copied"] = self.step("seed_full, rows copied to the host", timed)

    def limits(self):
        def measured():
            limits = self.run("gpu_limits", *(("64", "4") if self.quick else ()))
            return limits, (f"sgemm {limits['sgemm'] / 1e12:.1f} TFLOP/s, memory {summary.memory_speed(limits) / 1e9:.0f} "
                            f"GB/s, link {limits['link'] / 1e9:.1f} GB/s"), True
        self.results["limits"] = self.step("limits of this GPU", measured)

    def budgets(self):
        free = self.results["device"]["free_bytes"]
        rows = ["--rows", self.seed_rows] if self.seed_rows else []
        for budget in (256 * MIB, GIB) if self.quick else [256 * MIB << power for power in range(7)]:
            def one(budget=budget):
                if budget > free * 0.9:
                    return {"budget_bytes": budget, "skipped": "more than is free"}, "skipped: more than is free", True
                result = self.compute("seed_full", "fp32", "--memory", "--budget", budget, *rows)
                if "smallest_budget_bytes" in result:
                    return result, f"too little; {result['smallest_budget_bytes'] / MIB:.0f} MiB work", True
                return result, f"{result['peak_device_bytes'] / MIB:.0f} MiB taken, {result['seconds']:.3f} s", True
            result = self.step(f"seed_full within {budget // MIB} MiB", one)
            if result:
                self.results["budgets"].append(result)

    def sanitizer(self):
        program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        found = self.results["sanitizer"]
        if program is None or self.quick:
            found["skipped"] = "compute-sanitizer is not installed" if program is None else "quick"
            return
        for tool in ("memcheck", "racecheck", "synccheck"):
            for name in SANITIZED:
                def one():
                    self.run("gpu_check", "compute", name, "--verify",
                             before=(program, "--tool", tool, "--error-exitcode", "9"))
                    return "clean", "clean", True
                found[f"{tool} {name}"] = self.step(f"compute-sanitizer {tool} on {name}", one)

    def peers(self):
        found = self.results["peers"]
        probes = {"torch": "import torch, sys; sys.exit(not torch.cuda.is_available())",
                  "jax": "import jax, sys; sys.exit(jax.default_backend() != 'gpu')"}
        for name, probe in probes.items():
            if self.quick or subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode:
                found[name] = {"skipped": "quick" if self.quick else "not importable, or without this GPU"}
                continue

            def one():
                command = [sys.executable, f"{HERE}/seed_{name}.py", f"{self.golden}/seed_full"]
                command += ["cuda"] if name == "torch" else []
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise Failed(done.stderr.strip().splitlines()[-1])
                peer = json.loads(done.stdout.strip().splitlines()[-1])
                return peer, f"{peer['seconds']:.2f} s{peer.get('note', '')}", True
            found[name] = self.step(f"seed_full by {name}, rows dropped on the GPU", one)


def parse():
    parser = argparse.ArgumentParser(description="Checks jacserve on this machine's GPU.")
    parser.add_argument("--quick", action="store_true", help="a few rows of the large problem; no speeds")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of them, in this order")
    parser.add_argument("--out", default=".", help="where gpu_check.json and gpu_check.txt go")
    parser.add_argument("--programs", default=os.path.join(HERE, "bin"), help=argparse.SUPPRESS)
    parser.add_argument("--golden", default=os.path.join(HERE, "golden"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.parts = arguments.parts.split(",")
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"--parts: no {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return arguments


def main():
    arguments = parse()
    check = Check(arguments)
    try:
        check.results["device"] = check.run("gpu_check", "device")
    except Failed as failed:
        print(f"There is no GPU to check: {failed}")
        return NO_GPU if failed.status == NO_GPU else 1
    device = check.results["device"]
    print(f"{device['name']}, compute capability {device['compute_capability']}, "
          f"{device['memory_bytes'] / GIB:.0f} GiB")
    for part in PARTS:
        if part in arguments.parts:
            getattr(check, part)()
    check.results["goals"] = summary.goals(check.results)
    text = summary.text(check.results)
    print("\n" + text)
    os.makedirs(arguments.out, exist_ok=True)
    with open(os.path.join(arguments.out, "gpu_check.json"), "w") as file:
        json.dump(check.results, file, indent=1)
    with open(os.path.join(arguments.out, "gpu_check.txt"), "w") as file:
        file.write(text)
    return 1 if check.results["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
