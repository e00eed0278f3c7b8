"""Jacobians of neural networks that are larger than memory.

    import jacserve
    jac = jacserve.jacobian("net.onnx", x)
    jac["conv.weight"][0]              # rows are computed when they are asked for
    jac.to_npy("out")                  # or to files, within little memory

`jacserve.tf`, `jacserve.torch` and `jacserve.jax` hold drop-ins for the frameworks' own functions, `jacserve.aio` the
async client, `jacserve.plot` pictures.
"""

from importlib import import_module
from typing import Any

from jacserve._version import __version__
from jacserve.api import jacobian
from jacserve.block_array import BlockArray
from jacserve.connection import TLS, Server
from jacserve.errors import (
    AccessError,
    CancelledError,
    DataLossError,
    DeadlineError,
    InvalidRequestError,
    JacserveError,
    MessageTooLargeError,
    NotFoundError,
    PreconditionError,
    ProgramNotFoundError,
    ResourceError,
    RowsOutOfRangeError,
    ServerError,
    UnavailableError,
    UnsupportedOperatorError,
    VersionMismatchError,
)
from jacserve.functional import Functional
from jacserve.jacobian import Jacobian
from jacserve.layout import Block
from jacserve.local_server import LocalServer
from jacserve.rows import Rows
from jacserve.servers import connect, local
from jacserve.targets import outputs, pairwise

_SUBMODULES = ("aio", "frameworks", "jax", "plot", "tf", "torch")


def __getattr__(name: str) -> Any:
    """Submodules that need packages of their own are imported when they are first used."""
    if name in _SUBMODULES:
        return import_module(f"jacserve.{name}")
    raise AttributeError(f"module 'jacserve' has no attribute '{name}'")


__all__ = [
    "TLS",
    "AccessError",
    "Block",
    "BlockArray",
    "CancelledError",
    "DataLossError",
    "DeadlineError",
    "Functional",
    "InvalidRequestError",
    "Jacobian",
    "JacserveError",
    "LocalServer",
    "MessageTooLargeError",
    "NotFoundError",
    "PreconditionError",
    "ProgramNotFoundError",
    "ResourceError",
    "Rows",
    "RowsOutOfRangeError",
    "Server",
    "ServerError",
    "UnavailableError",
    "UnsupportedOperatorError",
    "VersionMismatchError",
    "__version__",
    "connect",
    "jacobian",
    "local",
    "outputs",
    "pairwise",
]
