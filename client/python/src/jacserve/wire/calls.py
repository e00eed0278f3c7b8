"""The service's calls on a channel, blocking or async alike: what to send, what comes back.

In: a grpc.Channel or grpc.aio.Channel. Out: callables named as the service's methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpc.experimental import ChannelOptions

from jacserve.request import Blob
from jacserve.wire import messages

UPLOAD_PIECE_BYTES = 1 << 20
MAX_DIGESTS_PER_CALL = 65_536
SHORT_CALL_SECONDS = 30.0
DESCRIBE_SECONDS = 120.0

_WINDOW_BYTES = 8 << 20  # of a stream, that the server may send ahead


def channel_options(address: str) -> list[tuple[str, int]]:
    """Options of every channel."""
    options = [
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # A server that vanished without a word is noticed. More often than every 5 minutes is more than servers bear.
        ("grpc.keepalive_time_ms", 310_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        # Left alone, the window grows with the speed of the stream and with it this process, to over 100 MiB.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
        # Streams are read by the thread that asked, without another one between: a third less time for a small one.
        (ChannelOptions.SingleThreadedUnaryStream, 1),
    ]
    if address.startswith(("unix:", "127.", "localhost:", "[::1]")):
        options.append(("grpc.enable_http_proxy", 0))
    return options


def _serialize(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


class Calls:
    """One attribute per method of the service."""

    def __init__(self, channel: Any) -> None:
        def unary(name: str, response: Any) -> Any:
            return channel.unary_unary(
                messages.SERVICE + name, request_serializer=_serialize, response_deserializer=response.FromString
            )

        self.find_missing = unary("FindMissing", messages.FindMissingResponse)
        self.describe_model = unary("DescribeModel", messages.ModelDescription)
        self.list_workers = unary("ListWorkers", messages.ListWorkersResponse)
        self.get_server_info = unary("GetServerInfo", messages.GetServerInfoResponse)
        self.upload = channel.stream_unary(
            messages.SERVICE + "Upload",
            request_serializer=_serialize,
            response_deserializer=messages.UploadResponse.FromString,
        )
        # No deserializer: events are parsed by hand from the bytes as they came.
        self.compute_jacobian = channel.unary_stream(
            messages.SERVICE + "ComputeJacobian", request_serializer=_serialize, response_deserializer=None
        )


def upload_parts(digest: bytes, blob: Blob) -> Iterator[Any]:
    """The messages of one upload."""
    announcement = messages.UploadRequest()
    announcement.announcement.sha256 = digest
    announcement.announcement.size_bytes = len(blob.data)
    yield announcement
    for begin in range(0, len(blob.data), UPLOAD_PIECE_BYTES):
        part = messages.UploadRequest()
        part.data = bytes(blob.data[begin : begin + UPLOAD_PIECE_BYTES])
        yield part


def find_missing_requests(digests: list[bytes]) -> Iterator[Any]:
    for begin in range(0, len(digests), MAX_DIGESTS_PER_CALL):
        request = messages.FindMissingRequest()
        request.sha256.extend(digests[begin : begin + MAX_DIGESTS_PER_CALL])
        yield request
