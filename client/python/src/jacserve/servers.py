"""Which server computes: one that the caller names, that of the environment, or a local one.

In: an address, a Server, or nothing. Out: a Server, shared between calls that name the same.
"""

from __future__ import annotations

import os
import threading

from jacserve.connection import TLS, Server, tls_of
from jacserve.local_server import LocalServer

_shared: dict[tuple[int, str, str], Server] = {}  # by process, address ("" for local) and token
_lock = threading.Lock()


def connect(address: str, *, token: str | None = None, tls: bool | TLS | None = None) -> Server:
    """Connects to a coordinator.

    Args:
        address: "HOST:PORT".
        token: sent with every call as `authorization: Bearer TOKEN`; default: JACSERVE_TOKEN.
        tls: True: encrypted, checked with the system's certificate authorities; a jacserve.TLS names files. Without it
            everything, the token too, travels in the clear.

    Raises:
        UnavailableError: no server answers there within 10 seconds.
    """
    return Server(address, token=token or os.environ.get("JACSERVE_TOKEN") or None, tls=tls_of(tls))


def local(workers: int | str = "auto", device: str = "auto", memory_budget: int | str | None = None) -> LocalServer:
    """Starts a private server on this machine; use it as a context manager, or call close(). It never outlives this
    process. The programs are found in JACSERVE_BIN, the jacserve-server package, or PATH.

    Args:
        workers: worker processes, 1 to 1024; "auto": as many as the cores carry.
        device: "auto", "cpu", "cuda" or "reference" (plain loops, for comparison).
        memory_budget: of each worker, in bytes or as "2GiB", of a GPU also as "80%"; None: 2 GiB, of a GPU 80%.

    Raises:
        ProgramNotFoundError: the programs are not installed.
        UnavailableError: they do not come up; their last words say why.
    """
    return LocalServer(workers, device, memory_budget)


def server_for(server: Server | str | None) -> Server:
    """None: that of JACSERVE_SERVER (with JACSERVE_TOKEN), else one local server for the life of this process."""
    if isinstance(server, Server):
        return server
    address = server if server is not None else os.environ.get("JACSERVE_SERVER", "")
    key = (os.getpid(), address, os.environ.get("JACSERVE_TOKEN", ""))
    with _lock:
        found = _shared.get(key)
        if found is None or not found.usable:
            found = _shared[key] = connect(address) if address else local()
        return found
