"""`python -m jacserve info|demo`.

In: words. Out: what is installed and which server answers; or the Jacobian that the project began with, as a picture.
"""

from __future__ import annotations

import argparse
import sys

import grpc
import numpy as np

import jacserve
from jacserve.local_server import PROGRAM, find_program
from jacserve.servers import server_for
from jacserve.wire.messages import enum_number


def info(server: str | None) -> None:
    """Versions, the programs found, and the server's workers."""
    print(f"jacserve {jacserve.__version__}, grpcio {grpc.__version__}, numpy {np.__version__}")
    try:
        print(f"{PROGRAM}: {find_program()}")
    except jacserve.ProgramNotFoundError:
        print(f"{PROGRAM}: not found; a server elsewhere is needed")
    found = server_for(server)
    state = found.info()
    kind = "local, started for this command" if isinstance(found, jacserve.LocalServer) else "given"
    print(f"server {found.address} ({kind}): version {state.version}, up {state.uptime_seconds} s, "
          f"{state.jobs_running} jobs running, {state.store_bytes / 2**20:.1f} MiB stored")  # fmt: skip
    ready = enum_number("WorkerState", "WORKER_STATE_READY")
    for worker in found.workers():
        print(f"  worker {worker.worker_id}: {'ready' if worker.state == ready else 'not ready'}, {worker.backend}, "
              f"{worker.device}, {worker.threads} threads, {worker.rows_done} rows done")  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m jacserve", description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=jacserve.__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    info_command = commands.add_parser("info", help="what is installed, and which server answers")
    info_command.add_argument("--server", metavar="HOST:PORT", help="default: JACSERVE_SERVER, else a local one")
    commands.add_parser("demo", help="the 56 x 56 similarities of a Keras encoder, and a picture", add_help=False)
    parsed, more = parser.parse_known_args(arguments)
    try:
        if parsed.command == "info":
            if more:
                parser.error(f"unrecognized arguments: {' '.join(more)}")
            info(parsed.server)
            return 0
        from jacserve import demo

        return int(demo.main(more) or 0)
    except jacserve.JacserveError as error:
        print(f"jacserve: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
