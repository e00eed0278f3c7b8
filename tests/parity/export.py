"""One framework's process: writes each case as a folder and prints a line of JSON for each, with what went wrong."""
import argparse
import importlib
import json
import os
import shutil
import sys
import traceback


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
    exporter = importlib.import_module(f"export_{args.framework}")
    cases = [case for case in exporter.CASES if not args.name or case.name in args.name]
    for case in cases[::10] if args.sample else cases:
        folder, error = f"{args.out}/{case.name}", ""
        if not (args.reuse and os.path.exists(f"{folder}/case.json")):
            shutil.rmtree(folder, ignore_errors=True)
            try:
                exporter.export(case, folder)
            except Exception as problem:  # whatever a framework raises is this case's failure
                traceback.print_exc()
                error = f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"
        print(json.dumps({"name": case.name, "error": error}), file=answers)


if __name__ == "__main__":
    sys.exit(main())
