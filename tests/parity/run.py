"""Exports real models from their frameworks, lets jacserve compute their Jacobians, and compares every block."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from case import FILES, SECOND

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FRAMEWORKS = ("torch", "keras", "jax")
TOLERANCE = {"fp64": 1e-9, "fp32": 1e-4}  # of a block's largest value
ROUNDED_CONSTANTS = 1e-6  # instead of 1e-9
ZERO_BY_SYMMETRY = 1e-12  # of all blocks' largest value: a block below it holds rounding only


def arguments(folder, case, scratch, precision):
    """The jacserve command's arguments; puts the inputs into `scratch`."""
    target = case["target"]
    result = ["jacobian", f"{folder}/graph.onnx", "--weights", f"{folder}/{FILES['weights']}", "--local", "1",
              "--precision", precision, "--out", f"{scratch}/out", "--json"]
    for key, array in np.load(f"{folder}/{FILES['inputs']}").items():
        np.save(f"{scratch}/{key}.npy", array)
        option = "--second" if key.startswith(SECOND) else "--input"
        result += [option, f"{key.removeprefix(SECOND)}={scratch}/{key}.npy"]
    if target["kind"] == "pairwise":
        result += ["--pairwise", target["similarity"], "--sign", str(target["sign"])]
        if target["similarity"] == "cosine":
            result += ["--epsilon", repr(target["epsilon"]), "--cosine-form", target["form"]]
    for name in case["wrt"]:
        result += ["--wrt", name]
    for name in case["wrt_inputs"]:
        result += ["--wrt-input", name]
    return result


def compare(folder, case, out, precision):
    """(worst error as a share of its tolerance, what is wrong or "")."""
    expected = np.load(f"{folder}/{FILES['expected']}")
    with open(f"{out}/index.json") as file:
        blocks = {block["name"]: block for block in json.load(file)["blocks"]}
    tolerance = max(TOLERANCE[precision], ROUNDED_CONSTANTS if case["rounded_constants"] else 0)
    largest = {key: np.abs(expected[key]).max(initial=0) for key in expected.files}
    overall = max(largest.values())
    worst, wrong = 0.0, []
    for key in expected.files:
        block = {"file": "value.npy"} if key == "value" else blocks.get(key)
        if block is None:
            wrong.append(f"{key}: no block")
        elif block.get("status") == "unconnected":
            if largest[key] > 0:
                wrong.append(f"{key}: reported unconnected")
        else:
            got = np.load(f"{out}/{block['file']}")
            if got.shape != expected[key].shape:
                wrong.append(f"{key}: shape {got.shape}, expected {expected[key].shape}")
                continue
            scale = largest[key] if largest[key] > ZERO_BY_SYMMETRY * overall else overall
            error = np.abs(got - expected[key]).max(initial=0) / max(scale, np.finfo(np.float32).tiny)
            worst = max(worst, error / tolerance)
            if not error <= tolerance:
                wrong.append(f"{key}: error {error:.1e}")
    for key in case["unconnected"]:
        if blocks.get(key, {}).get("status") != "unconnected":
            wrong.append(f"{key}: not reported unconnected")
    return worst, "; ".join(wrong)


def message(process):
    """The error that `jacserve --json` ends with."""
    lines = process.stdout.strip().splitlines() or process.stderr.strip().splitlines()
    try:
        error = json.loads(lines[-1])["error"]
        return error if isinstance(error, str) else f"{error.get('code', '')}: {error.get('message', error)}"
    except (ValueError, KeyError, IndexError, TypeError):
        return f"exit {process.returncode}: {' '.join(lines[-3:])}"


def check(folder, precision, jacserve):
    """(worst error as a share of its tolerance or None, what is wrong or "")."""
    with open(f"{folder}/case.json") as file:
        case = json.load(file)
    with tempfile.TemporaryDirectory() as scratch:
        command = [jacserve, *arguments(folder, case, scratch, precision)]
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            return None, "no answer within 120 s"
        if case.get("refused"):
            said = message(process) if process.returncode else "it was computed"
            return (0.0, "") if case["refused"] in said else (None, f"not refused as it should be: {said}")
        if process.returncode:
            return None, message(process)
        return compare(folder, case, f"{scratch}/out", precision)


def exported(framework, out, args):
    """Yields (name, error or "") of each case while the framework's own process writes them into `out`."""
    command = [sys.executable, f"{HERE}/export.py", framework, out, *args.name]
    command += ["--sample"] if args.sample else []
    command += ["--reuse"] if args.reuse else []
    environment = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **os.environ}
    with open(f"{out}.log", "w") as log, \
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as process:
        for line in process.stdout:
            yield json.loads(line).values()
    if process.returncode:
        yield "(export)", f"exit {process.returncode}, see {out}.log"


def run(framework, args):
    """Results of one framework's cases, printed as they come."""
    out = f"{args.out}/{framework}"
    os.makedirs(out, exist_ok=True)
    results = []
    for name, error in exported(framework, out, args):
        result = {"framework": framework, "name": name, "export": error or "ok"}
        start = time.monotonic()
        if not error:
            for precision in TOLERANCE:
                share, wrong = check(f"{out}/{name}", precision, args.jacserve)
                result[precision] = {"ok": not wrong, "share_of_tolerance": share, "message": wrong}
        result["seconds"] = time.monotonic() - start
        result["ok"] = not error and all(result[precision]["ok"] for precision in TOLERANCE)
        results.append(result)
        print(row(result), flush=True)
    return results


def row(result):
    cells = [f"{result['framework']:6}", f"{result['name']:32}"]
    messages = [] if result["export"] == "ok" else [f"export: {result['export']}"]
    for precision in TOLERANCE:
        outcome = result.get(precision, {"ok": False, "share_of_tolerance": None, "message": ""})
        share = outcome["share_of_tolerance"]
        cells.append(f"{'ok' if outcome['ok'] else 'FAIL':4} {'-' if share is None else f'{share:.0e}':>6}")
        messages += [outcome["message"]] if outcome["message"] not in ("", *messages) else []
    return "  ".join([*cells, " | ".join(messages)]).rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="cases to run (default: all)")
    parser.add_argument("--sample", action="store_true", help="every tenth case of each framework")
    parser.add_argument("--framework", action="append", choices=FRAMEWORKS, help="only this one (repeatable)")
    parser.add_argument("--reuse", action="store_true", help="take cases that were exported before as they are")
    parser.add_argument("--jacserve", default=f"{ROOT}/build/release/bin/jacserve", help="the program to test")
    parser.add_argument("--out", default=f"{ROOT}/build/parity", help="folder for exported cases and logs")
    parser.add_argument("--json", metavar="FILE", help="write the results there too")
    args = parser.parse_args()
    if not os.access(args.jacserve, os.X_OK):
        parser.error(f"{args.jacserve} is not there: make build")
    print(f"{'':6}  {'model':32}  {'fp64 (share':11}  {'fp32 of tolerance)':11}")
    results = [result for framework in args.framework or FRAMEWORKS for result in run(framework, args)]
    failed = sum(not result["ok"] for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
