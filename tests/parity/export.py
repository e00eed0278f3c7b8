"""One framework's process: writes each case as a folder and prints a line of JSON for each, with what went wrong."""
import argparse
import importlib
import json
import os
import shutil
import sys
import traceback

from case import write

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../client/python/src"))
from jacserve.frameworks import cache_clear, to_functional  # noqa: E402


def export(framework, case, folder):
    """As jacserve's own adapter exports the live model, with the Jacobian that the framework computes in float64."""
    cache_clear()  # a case must not depend on those before it
    batches = case.batches()
    model = framework.live(case, batches)
    functional = to_functional(model, framework.arguments(batches[0]))
    write(folder, case, functional, batches, *framework.jacobian(case, model, batches))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=("torch", "keras", "jax"))
    parser.add_argument("out")
    parser.add_argument("name", nargs="*")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--reuse", action="store_true")
    args = parser.parse_args()

    answers = os.fdopen(os.dup(1), "w", buffering=1)  # exporters print; what they print goes to the log
    os.dup2(2, 1)
    framework = importlib.import_module(f"export_{args.framework}")
    cases = [case for case in framework.CASES if not args.name or case.name in args.name]
    for case in cases[::10] if args.sample else cases:
        folder, error = f"{args.out}/{case.name}", ""
        if not (args.reuse and os.path.exists(f"{folder}/case.json")):
            shutil.rmtree(folder, ignore_errors=True)
            try:
                export(framework, case, folder)
            except Exception as problem:  # whatever a framework raises is this case's failure
                traceback.print_exc()
                error = f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"
        print(json.dumps({"name": case.name, "error": error}), file=answers)


if __name__ == "__main__":
    sys.exit(main())
