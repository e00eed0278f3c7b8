"""Packs what `gpu_check.py` needs into one archive that runs on a bare x86-64 host: programs, the libraries that they
need beyond libc and CUDA's own, golden cases, scripts.

usage: make_bundle.py BIN_FOLDER SOURCE_FOLDER OUT.tar.gz; fails when the build has no CUDA or the archive is too large.
"""
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

NAME = "jacserve-gpu-check"
LIMIT = 48 << 20
PROGRAMS = ("gpu_check", "gpu_limits", "libjacserve_cuda.so")
SCRIPTS = ("bench/gpu_check/gpu_check.py", "bench/gpu_check/summary.py", "bench/seed_torch.py", "bench/seed_jax.py")
# Part of every Linux system with glibc, or of the driver and CUDA.
OF_THE_HOST = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread)|libcuda|libcudart|libcublas|libcublasLt)\.so\.")


def libraries_of(binary):
    """{name: path} of the shared libraries to be shipped."""
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(\S+) => (/\S+)", listed))
    return {name: path for name, path in found.items() if not OF_THE_HOST.match(name)}


def fill(folder, bin_folder, source):
    os.makedirs(f"{folder}/bin")
    os.makedirs(f"{folder}/lib")
    for program in PROGRAMS:
        path = os.path.join(bin_folder, program)
        if not os.path.exists(path):
            sys.exit(f"{path} is missing: the check needs a build with CUDA (JACSERVE_CUDA=ON says what that lacks)")
        shutil.copy(path, f"{folder}/bin")
        subprocess.run(["strip", f"{folder}/bin/{program}"], check=True)
        for name, library in libraries_of(path).items():
            shutil.copy(library, f"{folder}/lib/{name}")
    for script in SCRIPTS:
        shutil.copy(os.path.join(source, script), folder)
    shutil.copytree(os.path.join(source, "tests/golden"), f"{folder}/golden")


def main(bin_folder, source, out):
    with tempfile.TemporaryDirectory() as scratch:
        fill(f"{scratch}/{NAME}", bin_folder, source)
        os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
        with tarfile.open(out, "w:gz", compresslevel=9) as archive:
            archive.add(f"{scratch}/{NAME}", NAME)
    size = os.path.getsize(out)
    if size > LIMIT:
        sys.exit(f"{out} has {size / (1 << 20):.1f} MiB; the limit is {LIMIT >> 20}")
    print(f"{out}: {size / (1 << 20):.1f} MiB. On a machine with a GPU: tar xf {os.path.basename(out)} && "
          f"python3 {NAME}/gpu_check.py")


main(*sys.argv[1:])
