"""What can go wrong, as exceptions with the server's words and a hint.

In: a failed call's status. Out: the subclass of JacserveError that belongs to its code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import grpc

from jacserve._version import __version__


class JacserveError(Exception):
    """Anything that jacserve reports.

    Attributes:
        message: what is wrong, in the words of whoever noticed.
        hint: what to do about it, or None.
        code: the status code's name, as "INVALID_ARGUMENT".
    """

    code = "UNKNOWN"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


class InvalidRequestError(JacserveError, ValueError):
    """The model or the request is wrong: names, shapes, types, values."""

    code = "INVALID_ARGUMENT"


class NotFoundError(JacserveError):
    """The server does not hold something that the request names."""

    code = "NOT_FOUND"


class ProgramNotFoundError(NotFoundError):
    """No server was given, and the programs to start a local one are not installed."""


class RowsOutOfRangeError(JacserveError, IndexError):
    """Rows that the target does not have."""

    code = "OUT_OF_RANGE"


class UnsupportedOperatorError(JacserveError, NotImplementedError):
    """The model uses operators that jacserve does not compute; the message lists all of them."""

    code = "UNIMPLEMENTED"


class VersionMismatchError(JacserveError):
    """Client and server are of versions that do not understand each other."""

    code = "UNIMPLEMENTED"


class ResourceError(JacserveError):
    """A memory budget, a quota or a disk is too small; the message names the figure that would do."""

    code = "RESOURCE_EXHAUSTED"


class MessageTooLargeError(ResourceError):
    """A message is larger than something on the way lets through."""


class UnavailableError(JacserveError, ConnectionError):
    """No server answers, or it has no worker; trying again may help."""

    code = "UNAVAILABLE"


class DataLossError(JacserveError):
    """Data arrived damaged or with gaps, or rows that no worker can compute."""

    code = "DATA_LOSS"


class PreconditionError(JacserveError):
    """Something is not as it was before: another answer to the same request, a folder in use."""

    code = "FAILED_PRECONDITION"


class CancelledError(JacserveError):
    """The computation was cancelled by the server's end or from another thread."""

    code = "CANCELLED"


class DeadlineError(JacserveError, TimeoutError):
    """A call took longer than it may."""

    code = "DEADLINE_EXCEEDED"


class AccessError(JacserveError, PermissionError):
    """The server does not accept the token, or none was given."""

    code = "PERMISSION_DENIED"


class ServerError(JacserveError):
    """A fault in the server itself."""

    code = "INTERNAL"


_BY_CODE: dict[grpc.StatusCode, type[JacserveError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.OUT_OF_RANGE: RowsOutOfRangeError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedOperatorError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DATA_LOSS: DataLossError,
    grpc.StatusCode.FAILED_PRECONDITION: PreconditionError,
    grpc.StatusCode.CANCELLED: CancelledError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
    grpc.StatusCode.PERMISSION_DENIED: AccessError,
    grpc.StatusCode.UNAUTHENTICATED: AccessError,
    grpc.StatusCode.INTERNAL: ServerError,
    grpc.StatusCode.UNKNOWN: ServerError,
}


# Of ONNX, of TensorFlow and of JAX.
_LOOPS = re.compile(r"\b(Loop|Scan|If|(Stateless)?(While|If)|TensorList\w*|while|scan|cond)\b")

# What gRPC itself says of a method that a server lacks, where it says anything.
_UNKNOWN_METHOD = ("method not found", "unknown method", "unknown service")


def no_server(address: str, words: str = "") -> UnavailableError:
    return UnavailableError(
        f"no server answers at {address}" + (f": {words}" if words else ""),
        "is jacserve-coordinator running there, and is the port right? Without JACSERVE_SERVER and server=, a local "
        "server is started",
    )


def version_mismatch(server_version: str, words: str) -> VersionMismatchError:
    return VersionMismatchError(
        f"the server (version {server_version or 'unknown'}) does not understand this client (version {__version__})"
        + (f": {words}" if words else ""),
        f"install the same version on both sides, as pip install jacserve=={server_version}"
        if server_version
        else "install the same version on both sides",
    )


def operators_hint(words: str) -> str:
    """What to do about the operators that a message names."""
    if _LOOPS.search(words):
        return (
            "loops and branches are not computed: unroll those whose number of steps is fixed, as a Python loop does "
            "while it is traced"
        )
    return "docs/operators.md lists the operators; replace the layer, or leave it outside of the differentiated part"


def layers_named_in(words: str, names_to_layers: Mapping[str, str]) -> list[str]:
    """Layers whose nodes a message names, each once."""
    found = [layer for prefix, layer in names_to_layers.items() if prefix and prefix in words]
    return list(dict.fromkeys(found))


def from_status(
    code: grpc.StatusCode,
    words: str,
    *,
    address: str = "",
    server_version: str = "",
    names_to_layers: Mapping[str, str] | None = None,
) -> JacserveError:
    """The exception for a call that ended with `code`; `words` are the server's or the transport's."""
    kind = _BY_CODE.get(code, ServerError)
    lower = words.lower()
    if code is grpc.StatusCode.UNIMPLEMENTED and (not words or lower.startswith(_UNKNOWN_METHOD)):
        return version_mismatch(server_version, words)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        layers = layers_named_in(words, names_to_layers or {})
        return kind(
            words + (f" (layers: {', '.join(layers)})" if layers else ""),
            operators_hint(words),
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "message larger" in lower:
        return MessageTooLargeError(
            words, "jacserve's own messages stay under 4 MiB; a proxy between client and server may allow less"
        )
    if code is grpc.StatusCode.UNAVAILABLE and ("connect" in lower or "socket" in lower or "resolv" in lower):
        return no_server(address, words)
    if kind is AccessError:
        return kind(words, "give the server's token with jacserve.connect(..., token=...) or in JACSERVE_TOKEN")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "budget" in lower:
        return kind(words, "give workers more memory, as jacserve.local(memory_budget='4GiB')")
    return kind(words or code.name)
