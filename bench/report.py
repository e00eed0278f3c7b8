"""Runs the benchmarks one after the other and prints each figure as a ratio within this run, beside its bar.

usage: report.py BIN_FOLDER GOLDEN_FOLDER. The peer needs JAX (`pip install jax`); without it that line says so.
"""
import json
import os
import subprocess
import sys

BIN, GOLDEN = sys.argv[1], sys.argv[2]
SEED = os.path.join(GOLDEN, "seed_full")
REPEATS = 3


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "JACSERVE_GOLDEN": GOLDEN})
    if done.returncode:
        sys.exit(f"{command[0]} failed with status {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def end_to_end():
    return run([f"{BIN}/jacserve", "jacobian", f"{SEED}/graph.onnx", "--weights", f"{SEED}/weights.npz",
                "--input", f"x={SEED}/x.npy", "--second", f"x={SEED}/y.npy", "--pairwise", "cosine", "--sign", "-1",
                "--epsilon", "1e-12", "--cosine-form", "sqrt_max_sum", "--local", "2", "--out", "none",
                "--memory-budget", "512MiB", "--json"])


def has_jax():
    return subprocess.run([sys.executable, "-c", "import jax"], stderr=subprocess.DEVNULL).returncode == 0


def line(what, ratio, bar, detail):
    print(f"{what:58} {ratio:>8}   {bar:>9}   {detail}")


def main():
    engine = run([f"{BIN}/engine_bench", "2"])
    relays, deliveries = [], []
    for _ in range(REPEATS):  # in turn, so that a drifting machine meets both
        relays.append(run([f"{BIN}/relay_bench", str(engine["bytes"] * 1e-9)])["seconds"])
        deliveries.append(end_to_end())
    relay = min(relays)
    delivery = min(deliveries, key=lambda d: d["phases"]["wait for first"] + d["phases"]["rows"])
    seconds = delivery["phases"]["wait for first"] + delivery["phases"]["rows"]

    print(f"sgemm peak {engine['gemm_flops_per_second'] * 1e-9:.0f} GFLOP/s, non-temporal fill "
          f"{engine['fill_bytes_per_second'] * 1e-9:.1f} GB/s on 2 threads; {engine['flops'] * 1e-9:.0f} GFLOP, "
          f"{engine['bytes'] * 1e-9:.2f} GB")
    line("what", "ratio", "bar", "seconds")
    ratio = engine["engine_seconds"] / engine["floor_seconds"]
    line("engine / (GEMM work at peak + bytes at fill)", f"{ratio:.2f}", "<= 1.7",
         f"{engine['engine_seconds']:.2f} / {engine['floor_seconds']:.2f}")
    if has_jax():
        jax = run([sys.executable, os.path.join(os.path.dirname(__file__), "jax_peer.py"), SEED])
        line(f"JAX {jax['version']}, vmapped pullbacks / engine", f"{jax['seconds'] / engine['engine_seconds']:.1f}",
             ">= 6", f"{jax['seconds']:.1f} / {engine['engine_seconds']:.2f}")
    else:
        line("JAX, vmapped pullbacks / engine", "-", ">= 6", "JAX is not installed (pip install jax)")
    bound = engine["engine_seconds"] + relay
    line("end to end, 2 workers / (engine + bare gRPC relay)", f"{seconds / bound:.2f}", "<= 1.25",
         f"{seconds:.2f} / ({engine['engine_seconds']:.2f} + {relay:.2f})")
    ratio = engine["one_engine_seconds"] / engine["two_side_by_side_seconds"]
    line("one engine / two on half the rows each", f"{ratio:.2f}", ">= 1.8",
         f"{engine['one_engine_seconds']:.2f} / {engine['two_side_by_side_seconds']:.2f}")
    for process in delivery["processes"]:
        bar = "<= 640 MiB" if process["role"] == "worker" else "<= 128 MiB"
        line(f"peak RSS of {process['role']} {process['name']}".rstrip(), f"{process['peak_rss_bytes'] / 2**20:.0f}", bar,
             "MiB, 512 MiB memory budget, rows discarded")


main()
