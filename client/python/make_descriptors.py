"""Writes the descriptors of the wire into the package, from proto/. Run after a change of a .proto file; needs protoc.

A test fails when the file is stale.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
OUT = HERE / "src/jacserve/wire/jacserve_v1.binpb"


def write(path: Path) -> None:
    """Writes the FileDescriptorSet of the client-facing service and all that it imports."""
    subprocess.run(
        [
            "protoc",
            f"-I{PROTO}",
            "--include_imports",
            f"--descriptor_set_out={path}",
            "jacserve/v1/jacobian_service.proto",
        ],
        check=True,
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
