"""What a check on a GPU comes to. In: the results that gpu_check.py gathers. Out: three goals, and a page of text.

Engine time is a run after the first: what is allocated once, and the forward pass of the samples, are said apart, and
the forward pass is added.
"""
MIB = 1 << 20
TIME_GOAL, LINK_GOAL = 1.5, 0.85


def number(error):
    return "not finite" if error is None else f"{error:.1e}"


def goal(what, bar, ratio, met):
    state = "not measured" if met is None else "met" if met else "not met"
    return {"what": what, "bar": bar, "ratio": ratio, "state": state}


def whole(run):
    return bool(run) and run["rows"] == run["all_rows"]


def engine_seconds(run):
    return run["seconds"] + run["linearize_seconds"]


def memory_speed(limits):
    return max(limits["fill"], limits["copy"])


def floor_seconds(run, limits):
    """The larger of arithmetic and memory, each at its measured peak."""
    return max(run["flops"] / max(limits["sgemm"], limits["sgemm_pedantic"]), run["bytes"] / memory_speed(limits))


def memory_goal(budgets):
    what, bar = "peak memory of the GPU / budget, at every budget", "<= 1"
    taken = [one["peak_device_bytes"] / one["budget_bytes"] for one in budgets if "peak_device_bytes" in one]
    refused = any("smallest_budget_bytes" in one for one in budgets)
    if not taken:
        return goal(what, bar, None, None)
    return goal(what, bar, max(taken), max(taken) <= 1 and not refused)


def goals(results):
    """Each {what, bar, ratio or None, state: met | not met | not measured}. Parts of seed_full say nothing of speed."""
    limits, seed = results["limits"], results["seed_full"]
    what = "seed_full, rows dropped on the GPU: engine / larger of arithmetic and memory"
    ratio = None
    if limits and whole(seed.get("discarded")):
        ratio = engine_seconds(seed["discarded"]) / floor_seconds(seed["discarded"], limits)
    time = goal(what, f"<= {TIME_GOAL}", ratio, None if ratio is None else ratio <= TIME_GOAL)
    what = "seed_full copied to the host: bytes per second / the link's"
    ratio = None
    if limits and whole(seed.get("copied")):
        ratio = seed["copied"]["bytes"] / seed["copied"]["seconds"] / limits["link"]
    link = goal(what, f">= {LINK_GOAL}", ratio, None if ratio is None else ratio >= LINK_GOAL)
    return [time, link, memory_goal(results["budgets"])]


def errors(results, precision):
    runs = [one for one in results["cases"] if one["precision"] == precision]
    seed = results["seed_full"].get(precision)
    return [(one["case"], one["worst_error"]) for one in runs + ([seed] if seed else [])]


def limits_line(limits):
    return (f"limits: sgemm {limits['sgemm'] / 1e12:.2f} TFLOP/s (pedantic {limits['sgemm_pedantic'] / 1e12:.2f}, "
            f"TF32 {limits['sgemm_tf32'] / 1e12:.2f}), memory {limits['fill'] / 1e9:.0f} GB/s filled and "
            f"{limits['copy'] / 1e9:.0f} copied, link {limits['link'] / 1e9:.1f} GB/s; cuBLAS {limits['cublas']}")


def speed_lines(results):
    seed = results["seed_full"]
    if results["limits"]:
        yield limits_line(results["limits"])
    for name in ("discarded", "copied"):
        run = seed.get(name)
        if run:
            yield (f"seed_full {name}: {run['rows']} of {run['all_rows']} rows, {run['bytes'] / 1e9:.2f} GB; first "
                   f"{run['first_seconds']:.3f} s, then {run['seconds']:.3f} s, forward {run['linearize_seconds']:.3f} s")
    for name, peer in results["peers"].items():
        if peer and "seconds" in peer and whole(seed.get("discarded")):
            yield f"{name} {peer['version']} / engine: {peer['seconds'] / engine_seconds(seed['discarded']):.1f}"
        else:
            yield f"{name}: {(peer or {}).get('skipped', 'failed')}"


def budget_line(one):
    budget = f"budget {one['budget_bytes'] // MIB} MiB: "
    if "skipped" in one:
        return budget + one["skipped"]
    if "smallest_budget_bytes" in one:
        return budget + f"too little, {one['smallest_budget_bytes'] / MIB:.0f} MiB work"
    return budget + f"{one['peak_device_bytes'] / MIB:.0f} MiB taken, {one['seconds']:.3f} s"


def text(results):
    device = results["device"]
    lines = [f"jacserve on {device['name']}, compute capability {device['compute_capability']}, driver for CUDA "
             f"{device['driver_cuda']}, {results['date']}" + (", quick" if results["quick"] else ""), "", "goals"]
    for one in results["goals"]:
        ratio = "-" if one["ratio"] is None else f"{one['ratio']:.2f}"
        lines.append(f"  {one['state']:12} {ratio:>6} {one['bar']:>7}  {one['what']}")
    lines += ["", "largest errors, as parts of a block's largest number"]
    for precision in ("fp32", "fp64", "tf32", "fp16"):
        found = errors(results, precision)
        if found:
            case, worst = max(found, key=lambda pair: float("inf") if pair[1] is None else pair[1])
            lines.append(f"  {precision}: {number(worst)} in {case}, of {len(found)} cases")
    lines += ["", *speed_lines(results), "", *map(budget_line, results["budgets"]), ""]
    sanitizer = results["sanitizer"]
    clean = sum(one == "clean" for one in sanitizer.values())
    if sanitizer:
        lines.append("compute-sanitizer: " + sanitizer.get("skipped", f"{clean} of {len(sanitizer)} runs clean"))
    lines += ["", "WRONG:" if results["failures"] else "All numbers are right.", *results["failures"]]
    return "\n".join(lines) + "\n"
