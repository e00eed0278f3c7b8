"""A server to compute with: where it is, how to speak to it, what it already holds.

In: an address, a token, TLS. Out: a Server, whose calls retry where that is safe and whose errors are JacserveErrors.
"""

from __future__ import annotations

import hashlib
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import grpc

from jacserve import errors
from jacserve._version import __version__
from jacserve.request import Blob
from jacserve.retry import Retry
from jacserve.wire import calls, messages

CONNECT_SECONDS = 10.0
T = TypeVar("T")


@dataclass(frozen=True)
class TLS:
    """Files in PEM format. Left out: the system's certificate authorities, and no certificate of our own."""

    ca: str | PathLike[str] | None = None
    cert: str | PathLike[str] | None = None
    key: str | PathLike[str] | None = None

    def credentials(self) -> Any:
        """InvalidRequestError: a file that cannot be read."""
        try:
            parts = [None if path is None else Path(path).read_bytes() for path in (self.ca, self.key, self.cert)]
        except OSError as error:
            raise errors.InvalidRequestError(f"tls: {error}") from error
        return grpc.ssl_channel_credentials(*parts)


def metadata_for(token: str | None) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")] if token else []


def tls_of(tls: bool | TLS | None) -> TLS | None:
    return TLS() if tls is True else tls or None


def error_of(failed: Any, address: str, version: str = "", layers: Mapping[str, str] | None = None) -> Exception:
    """A grpc.RpcError as a JacserveError."""
    return errors.from_status(
        failed.code(), failed.details() or "", address=address, server_version=version, names_to_layers=layers
    )


class Server:
    """A connection to a coordinator. Use it as a context manager, or call close().

    Attributes:
        address: HOST:PORT.
        version: of the server.
    """

    def __init__(
        self, address: str, *, token: str | None = None, tls: TLS | None = None, timeout: float = CONNECT_SECONDS
    ) -> None:
        if not address:
            raise errors.InvalidRequestError("the server's address is empty; give 'HOST:PORT'")
        self.address = address
        self.token = token
        self.tls = tls
        self.version = ""
        self._closed = False
        options = calls.channel_options(address)
        self._channel = (
            grpc.secure_channel(address, tls.credentials(), options) if tls else grpc.insecure_channel(address, options)
        )
        self._calls = calls.Calls(self._channel)
        self._metadata = metadata_for(token)
        self._held: set[bytes] = set()  # digests that the server is known to hold
        self._lock = threading.Lock()
        try:
            self._connect(timeout)
        except BaseException:
            self._channel.close()
            raise

    def _connect(self, timeout: float) -> None:
        try:
            grpc.channel_ready_future(self._channel).result(timeout=timeout)
        except grpc.FutureTimeoutError:
            raise errors.no_server(self.address) from None
        self.version = self.info().version
        if self.version.split(".")[:2] != __version__.split(".")[:2]:
            warnings.warn(
                f"the server at {self.address} has version {self.version}, this client {__version__}; "
                "install the same version on both sides",
                stacklevel=4,
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<jacserve.Server {self.address} version {self.version}>"

    def close(self) -> None:
        """Ends the connection, not the server."""
        self._closed = True
        self._channel.close()

    @property
    def usable(self) -> bool:
        """Not closed."""
        return not self._closed

    def info(self) -> Any:
        """The server's state: a GetServerInfoResponse with version, uptime_seconds, workers_ready and more."""
        return self._retried(
            lambda: self._calls.get_server_info(
                messages.GetServerInfoRequest(), timeout=calls.SHORT_CALL_SECONDS, metadata=self._metadata
            )
        )

    def workers(self) -> list[Any]:
        """The server's workers: WorkerInfo messages with worker_id, state, backend, device, rows_done and more."""
        answer = self._retried(
            lambda: self._calls.list_workers(
                messages.ListWorkersRequest(), timeout=calls.SHORT_CALL_SECONDS, metadata=self._metadata
            )
        )
        return list(answer.workers)

    def describe(self, graph: bytes) -> Any:
        """What a worker reads in an ONNX graph: a ModelDescription with inputs, parameters, outputs, operators.

        Raises:
            InvalidRequestError: not a valid ONNX graph.
        """
        digest = hashlib.sha256(graph).digest()
        self.upload({digest: Blob("graph", memoryview(graph))})
        request = messages.DescribeModelRequest()
        request.graph_sha256 = digest
        return self._retried(
            lambda: self._calls.describe_model(request, timeout=calls.DESCRIBE_SECONDS, metadata=self._metadata)
        )

    def upload(self, blobs: Mapping[bytes, Blob]) -> int:
        """Sends what the server does not hold yet; bytes sent. ResourceError: over its quota."""
        with self._lock:
            unknown = [digest for digest in blobs if digest not in self._held]
        if not unknown:
            return 0
        missing: list[bytes] = []
        for request in calls.find_missing_requests(unknown):
            missing.extend(self._find_missing(request).missing)
        for digest in dict.fromkeys(missing):
            self._upload_one(digest, blobs[digest])
        with self._lock:
            self._held.update(unknown)
        return sum(len(blobs[digest].data) for digest in missing)

    def forget_uploads(self) -> None:
        """The server may have lost what it was given."""
        with self._lock:
            self._held.clear()

    def open_stream(self, request: Any) -> Any:
        """Begins a ComputeJacobian call: an iterator over its messages' bytes that has cancel()."""
        return self._calls.compute_jacobian(request, metadata=self._metadata)

    def error_of(self, failed: Any, layers: Mapping[str, str] | None = None) -> Exception:
        return error_of(failed, self.address, self.version, layers)

    def _find_missing(self, request: Any) -> Any:
        return self._retried(
            lambda: self._calls.find_missing(request, timeout=calls.SHORT_CALL_SECONDS, metadata=self._metadata)
        )

    def _upload_one(self, digest: bytes, blob: Blob) -> None:
        try:
            self._retried(lambda: self._calls.upload(calls.upload_parts(digest, blob), metadata=self._metadata))
        except errors.JacserveError as error:
            raise type(error)(f"uploading {blob.label}: {error.message}", error.hint) from error

    def _retried(self, call: Callable[[], T]) -> T:
        """Calls again while the server is unavailable; such calls change nothing or may be repeated."""
        retry = Retry()
        while True:
            try:
                return call()
            except grpc.RpcError as failed:
                error = self.error_of(failed)
                wait = retry.next_wait(error.message) if isinstance(error, errors.UnavailableError) else None
                if wait is None:
                    raise error from failed
                time.sleep(wait)
