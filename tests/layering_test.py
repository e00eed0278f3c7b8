"""Fails on an #include that points the wrong way.

In: the sources below the root given as the only argument. Out: exit code 0, or the offending lines.
"""

import pathlib
import re
import sys

# A folder -> the folders whose headers it may include, itself aside. Longest match wins.
ALLOWED = {
    "common": [],
    "worker/model": ["common"],
    "worker/backend": ["common"],
    "worker/ops": ["common", "worker/model", "worker/backend"],
    "worker/program": ["common", "worker/model", "worker/backend", "worker/ops"],
    "worker/engine": ["common", "worker/model", "worker/backend", "worker/ops", "worker/program"],
    "worker/service": ["common", "worker/model", "worker/engine"],
    "server/access": ["common"],
    "server/store": ["common"],
    "server/plan": ["common"],
    "server/state": ["common", "server/plan"],
    "server/relay": ["common"],
    "server/schedule": ["common", "server/store", "server/plan", "server/state", "server/relay"],
    "server/service": ["common", "server/access", "server/store", "server/plan", "server/state", "server/relay",
                       "server/schedule"],
    "client/cpp": ["common"],
    "client/cli": ["common", "client/cpp"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def folder_of(path):
    """The longest entry of ALLOWED that the path lies in, or None."""
    matches = [folder for folder in ALLOWED if path == folder or path.startswith(folder + "/")]
    return max(matches, key=len, default=None)


def violations(root):
    for top in ("common", "worker", "server", "client"):
        for source in sorted((root / top).rglob("*")):
            if source.suffix not in (".h", ".cc", ".cu"):
                continue
            name = source.relative_to(root).as_posix()
            own = folder_of(name)
            if own is None:
                yield f"{name}: the folder is not listed in tests/layering_test.py"
                continue
            for number, line in enumerate(source.read_text().splitlines(), start=1):
                include = INCLUDE.match(line)
                if include is None or include[1].split("/")[0] not in ("common", "worker", "server", "client", "tests"):
                    continue
                target = folder_of(include[1])
                if target != own and target not in ALLOWED[own]:
                    yield f"{name}:{number}: {own} must not include {include[1]}"


def check_the_check():
    """A checker that never complains would pass for ever."""
    assert folder_of("worker/ops/conv.cc") == "worker/ops"
    assert folder_of("worker/backend/cpu/gemm.h") == "worker/backend"
    assert folder_of("elsewhere/x.h") is None
    assert INCLUDE.match('#include "worker/ops/op.h"')[1] == "worker/ops/op.h"
    assert "worker/engine" not in ALLOWED["worker/ops"]


def main():
    check_the_check()
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "every #include points the right way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
