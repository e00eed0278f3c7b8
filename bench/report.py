"""Runs the benchmarks one after the other and prints each figure as a ratio within this run, beside its bar.

usage: report.py BIN_FOLDER GOLDEN_FOLDER [RESULTS_FOLDER]. The peers run in the Python that runs this: what it lacks of
JAX, torch and TensorFlow is said in its line. RESULTS_FOLDER receives the figures as JSON, one file a kind of machine.
"""
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BIN, GOLDEN = sys.argv[1], sys.argv[2]
RESULTS = sys.argv[3] if len(sys.argv) > 3 else None
SEED = os.path.join(GOLDEN, "seed_full")
REPEATS = 3
# network: the least ratio of the best peer's time to ours, and the peers.
NETS = {"conv3": (2, ("jax", "torch")), "mnist": (2, ("torch",)), "mlp": (1.5, ("jax",)), "transformer": (1.2, ("jax",))}
GROWTH = {"rows": "growth_rows", "parameters": "growth_parameters", "batch": "growth_batch"}
lines = []


def run(command, golden=GOLDEN):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "JACSERVE_GOLDEN": golden})
    if done.returncode:
        sys.exit(f"{command[0]} failed with status {done.returncode}")
    return [json.loads(text) for text in done.stdout.strip().splitlines() if text.startswith("{")]


def end_to_end():
    return run([f"{BIN}/jacserve", "jacobian", f"{SEED}/graph.onnx", "--weights", f"{SEED}/weights.npz",
                "--input", f"x={SEED}/x.npy", "--second", f"x={SEED}/y.npy", "--pairwise", "cosine", "--sign", "-1",
                "--epsilon", "1e-12", "--cosine-form", "sqrt_max_sum", "--local", "2", "--out", "none",
                "--memory-budget", "512MiB", "--json"])[-1]


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode == 0


def line(what, ratio, bar, detail, digits=2):
    lines.append({"what": what, "ratio": ratio, "bar": bar, "detail": detail})
    text = "-" if ratio is None else f"{ratio:.{digits}f}"
    print(f"{what:64} {text:>8}   {bar:>9}   {detail}", flush=True)


def seed_lines():
    engine = run([f"{BIN}/engine_bench", "2"])[-1]
    relays, deliveries = [], []
    for _ in range(REPEATS):  # in turn, so that a drifting machine meets both
        relays.append(run([f"{BIN}/relay_bench", str(engine["bytes"] * 1e-9)])[-1]["seconds"])
        deliveries.append(end_to_end())
    relay = min(relays)
    delivery = min(deliveries, key=lambda d: d["phases"]["wait for first"] + d["phases"]["rows"])
    seconds = delivery["phases"]["wait for first"] + delivery["phases"]["rows"]
    ours = engine["engine_seconds"]

    print(f"sgemm peak {engine['gemm_flops_per_second'] * 1e-9:.0f} GFLOP/s, non-temporal fill "
          f"{engine['fill_bytes_per_second'] * 1e-9:.1f} GB/s on 2 threads; {engine['flops'] * 1e-9:.0f} GFLOP, "
          f"{engine['bytes'] * 1e-9:.2f} GB")
    print(f"{'what':64} {'ratio':>8}   {'bar':>9}   seconds")
    line("engine / (GEMM work at peak + bytes at fill)", ours / engine["floor_seconds"], "<= 1.35",
         f"{ours:.2f} / {engine['floor_seconds']:.2f}")
    for name, module, bar, what in (("tensorflow", "tensorflow", 65, "row by row"), ("jax", "jax", 8, "vmap of pullbacks"),
                                    ("torch", "torch", 12, "vmap of grad per pair")):
        if not has(module):
            line(f"{name}, {what} / engine", None, f">= {bar}", f"{module} is not installed")
            continue
        peer = run([sys.executable, os.path.join(HERE, f"seed_{name}.py"), SEED])[-1]
        line(f"{name} {peer['version']}, {what} / engine", peer["seconds"] / ours, f">= {bar}",
             f"{peer['seconds']:.1f}{peer.get('note', '')} / {ours:.2f}", 1)
    line("end to end, 2 workers / (engine + bare gRPC relay)", seconds / (ours + relay), "<= 1.25",
         f"{seconds:.2f} / ({ours:.2f} + {relay:.2f})")
    line("one engine / two on half the rows each", engine["one_engine_seconds"] / engine["two_side_by_side_seconds"],
         ">= 1.8", f"{engine['one_engine_seconds']:.2f} / {engine['two_side_by_side_seconds']:.2f}")
    for process in delivery["processes"]:
        bar = "<= 640 MiB" if process["role"] == "worker" else "<= 128 MiB"
        line(f"peak RSS of {process['role']} {process['name']}".rstrip(), process["peak_rss_bytes"] / 2**20, bar,
             "MiB, 512 MiB memory budget, rows discarded", 0)
    busy = engine["linearize"] + engine["pullback"] + engine["rows"]
    print("where the engine's threads spend seed_full: "
          + ", ".join(f"{name} {engine[name] / busy:.0%}" for name in ("linearize", "pullback", "rows"))
          + f", waiting {max(2 * ours - busy, 0) / (2 * ours):.0%} of the time")


def net_lines(folder):
    sys.path.insert(0, HERE)
    import networks
    for name, make in networks.NETS.items():
        networks.write_case(make(), os.path.join(folder, name))
    ours = {one["name"]: one for one in run([f"{BIN}/net_bench", "2", *networks.NETS], folder)}
    for name, (bar, peers) in NETS.items():
        net = networks.NETS[name]()
        times = {peer: run([sys.executable, os.path.join(HERE, "net_peer.py"), peer, name, "2"])[-1]
                 for peer in peers if has(peer)}
        seconds = ours[name]["seconds"]
        if not times:
            line(f"{net.what} / ours", None, f">= {bar}", f"none of {', '.join(peers)} is installed")
            continue
        best = min(times, key=lambda peer: times[peer]["seconds"])
        line(f"{best} {times[best]['version']}: {net.what}", times[best]["seconds"] / seconds, f">= {bar}",
             f"{times[best]['seconds']:.2f} / {seconds:.2f}, {net.samples} samples", 1)
    for what, name in GROWTH.items():
        line(f"time with twice the {what} / once", ours[name]["seconds"] / ours["growth"]["seconds"], "<= 2.1",
             f"{ours[name]['seconds']:.2f} / {ours['growth']['seconds']:.2f}")


def python_lines():
    figures = run([sys.executable, os.path.join(HERE, "python_client.py"), BIN, SEED])[-1]
    python, cpp = figures["python_bytes_per_second"], figures["cpp_bytes_per_second"]
    line("rows to .npy files: Python client / C++ client", python / cpp, ">= 0.7",
         f"{python * 1e-9:.2f} / {cpp * 1e-9:.2f} GB/s", 2)
    line("8 x 10 Jacobian of an MLP from Python, already uploaded", figures["tiny_milliseconds"], "<= 5 ms", "ms", 1)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((text.split(":")[1].strip() for text in file if text.startswith("model name")), platform.machine())
    return {"processor": model, "cores": os.cpu_count(), "system": platform.platform()}


def main():
    seed_lines()
    if has("onnx") and has("numpy"):
        with tempfile.TemporaryDirectory() as folder:
            net_lines(folder)
    else:
        print("the networks against JAX and torch: the Python package onnx is not installed")
    if has("jacserve"):
        python_lines()
    else:
        print("the Python client: the Python package jacserve is not installed")
    if RESULTS:
        described = machine()
        name = re.sub("[^a-z0-9]+", "_", f"{described['processor']} {described['cores']} cores".lower()).strip("_")
        os.makedirs(RESULTS, exist_ok=True)
        with open(os.path.join(RESULTS, name + ".json"), "w", encoding="utf-8") as file:
            json.dump({"date": datetime.date.today().isoformat(), "machine": described, "figures": lines}, file, indent=1)
            file.write("\n")


main()
