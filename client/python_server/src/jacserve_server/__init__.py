"""The programs of jacserve: jacserve-coordinator, the CPU jacserve-worker and the command jacserve.

In: nothing. Out: where they are; the commands of these names that pip puts on PATH.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from jacserve_server._version import __version__

__all__ = ["__version__", "bin_dir", "run"]


def bin_dir() -> Path:
    """The folder of the programs, as JACSERVE_BIN would name it."""
    return Path(__file__).resolve().with_name("bin")


def run() -> NoReturn:
    """Becomes the program that this process was called by. Raises: OSError, when there is none of that name."""
    program = bin_dir() / Path(sys.argv[0]).name
    os.execv(program, [str(program), *sys.argv[1:]])
