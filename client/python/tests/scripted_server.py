"""A server that says what a test tells it to: for versions, tokens and faults that a real one does not show on demand.

In: answers to calls. Out: an address; what was received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any

import grpc

from jacserve._version import __version__
from jacserve.wire import messages

Events = Callable[[Any, grpc.ServicerContext], Iterable[bytes]]


class ScriptedServer(grpc.GenericRpcHandler):
    """Holds every blob; `events` answers ComputeJacobian with raw messages."""

    def __init__(
        self,
        events: Events | None = None,
        version: str = __version__,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.events = events
        self.version = version
        self.metadata: list[dict[str, str]] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self,))
        any_port = "127.0.0.1:0"
        add_port = self._server.add_secure_port if credentials else self._server.add_insecure_port
        self.address = f"localhost:{add_port(any_port, credentials) if credentials else add_port(any_port)}"

    def __enter__(self) -> ScriptedServer:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0)

    def service(self, call: grpc.HandlerCallDetails) -> Any:
        self.metadata.append(dict(call.invocation_metadata))
        name = call.method.rpartition("/")[2]
        if name == "ComputeJacobian" and self.events is not None:
            return grpc.unary_stream_rpc_method_handler(
                self._compute, request_deserializer=messages.ComputeJacobianRequest.FromString
            )
        answers = {
            "GetServerInfo": messages.GetServerInfoResponse(version=self.version, workers_ready=1),
            "FindMissing": messages.FindMissingResponse(),
            "ListWorkers": messages.ListWorkersResponse(),
        }
        if name not in answers:
            return None
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: answers[name], response_serializer=lambda message: message.SerializeToString()
        )

    def _compute(self, request: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
        assert self.events is not None
        yield from self.events(request, context)
