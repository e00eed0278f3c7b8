"""The seed's Jacobian from Python, side by side in one run: TensorFlow's row loop, the best of torch and JAX, jacserve.

usage: python_bench.py BIN_FOLDER GOLDEN_FOLDER [CHART.png]. Prints a Markdown table of wall time and peak memory, and
draws it as bars. A framework that this Python lacks is left out, and said to be. What a peer times of the whole is in
its own file: every row costs the same, so TensorFlow's and torch's figures are scaled from some of them.
"""
import importlib.util
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = (("tensorflow", "one tape.gradient a row", "seed_tensorflow.py"), ("torch", "vmap(grad) of a pair", "seed_torch.py"),
         ("jax", "vmap of pullbacks, jitted", "seed_jax.py"), ("jacserve", "from Keras, 2 workers", "seed_jacserve.py"))


def run(script, folder, bin_folder):
    """What a script printed, with the peak memory of its process unless it tells that of several."""
    environment = {**os.environ, "JACSERVE_BIN": bin_folder, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, os.path.join(HERE, script), folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{script} failed with status {process.returncode}")
    return {"peak_bytes": usage.ru_maxrss * 1024, **json.loads(text.strip().splitlines()[-1])}


def draw(results, path):
    from matplotlib.figure import Figure
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    names = [name for name, _ in results]
    for axes, key, scale, title in zip(figure.subplots(1, 2, sharey=True), ("seconds", "peak_bytes"), (1, 2**30),
                                       ("wall time, s", "peak memory, GiB")):
        values = [result[key] / scale for _, result in results]
        colours = ["tab:orange" if name == "jacserve" else "tab:gray" for name in names]
        axes.bar_label(axes.barh(names, values, color=colours), fmt="%.1f", padding=3)
        axes.set_title(title)
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def main(bin_folder, golden, chart=None):
    results = []
    print("| the seed's Jacobian, 14.3 GB | wall time | peak memory |\n|---|---|---|")
    for module, how, script in PEERS:
        needed = "tensorflow" if module == "jacserve" else module
        if importlib.util.find_spec(needed) is None:
            print(f"| {module} | {needed} is not installed | |")
            continue
        result = run(script, os.path.join(golden, "seed_full"), bin_folder)
        results.append((module, result))
        print(f"| {module} {result['version']}, {how}{result.get('note', '')} | {result['seconds']:.1f} s "
              f"| {result['peak_bytes'] / 2**30:.1f} GiB |", flush=True)
        if "first_row_seconds" in result:
            print(f"\njacserve: exported, uploaded and first row {result['first_row_seconds']:.1f} s after imports")
    if chart and results:
        draw(results, chart)


main(*sys.argv[1:])
