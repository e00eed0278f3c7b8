"""Errors carry the server's words, the user's names, and what to do."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest

import events
import jacserve
from golden import Case
from jacserve import errors, header
from jacserve.retry import Retry
from scripted_server import ScriptedServer


def graph_with(op_type: str, node: str) -> bytes:
    """y = op_type(x w), as a functional graph."""
    value = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        onnx.helper.make_node(op_type, ["h"], ["y"], name=node),
    ]
    inputs = [value("x", 1, ["N", 3]), value("w", 1, [3, 2])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [value("y", 1, None)])
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def jacobian_of_w(server: Any, graph: bytes, x: Any = None, **arguments: Any) -> jacserve.Jacobian:
    weights = {"w": np.ones((3, 2), np.float32)}
    x = np.ones((2, 3), np.float32) if x is None else x
    return jacserve.jacobian(graph, x, weights=weights, server=server, **arguments)


def test_an_unsupported_operator_is_named(server: jacserve.Server) -> None:
    with pytest.raises(jacserve.UnsupportedOperatorError) as caught:
        jacobian_of_w(server, graph_with("StringNormalizer", "/blocks/1/odd"))
    assert "StringNormalizer" in caught.value.message
    assert "operators" in (caught.value.hint or "")
    assert caught.value.code == "UNIMPLEMENTED"


def test_an_unsupported_operators_layer_is_named() -> None:
    error = errors.from_status(
        grpc.StatusCode.UNIMPLEMENTED,
        "operators that are not supported: Foo (node 'dense/odd')",
        names_to_layers={"dense/": "Dense layer 'dense'", "conv/": "Conv layer 'conv'"},
    )
    assert "Dense layer 'dense'" in error.message
    assert "conv" not in error.message


@pytest.mark.parametrize(
    ("code", "words", "kind", "hint"),
    [
        ("INVALID_ARGUMENT", "bad shape", errors.InvalidRequestError, ""),
        ("OUT_OF_RANGE", "rows", errors.RowsOutOfRangeError, ""),
        ("UNIMPLEMENTED", "", errors.VersionMismatchError, "0.9.0"),
        ("UNIMPLEMENTED", "Method not found!", errors.VersionMismatchError, "0.9.0"),
        ("RESOURCE_EXHAUSTED", "Received message larger than max (5 vs. 4)", errors.MessageTooLargeError, "proxy"),
        ("RESOURCE_EXHAUSTED", "the memory budget of 1 MiB", errors.ResourceError, "memory_budget"),
        ("UNAVAILABLE", "failed to connect to all addresses", errors.UnavailableError, "coordinator"),
        ("UNAVAILABLE", "draining", errors.UnavailableError, ""),
        ("UNAUTHENTICATED", "no token", errors.AccessError, "JACSERVE_TOKEN"),
        ("PERMISSION_DENIED", "wrong token", errors.AccessError, "JACSERVE_TOKEN"),
        ("DATA_LOSS", "gap", errors.DataLossError, ""),
        ("INTERNAL", "oops", errors.ServerError, ""),
    ],
)
def test_each_code_has_its_exception_and_hint(code: str, words: str, kind: Any, hint: str) -> None:
    error = errors.from_status(grpc.StatusCode[code], words, address="h:1", server_version="0.9.0")
    assert type(error) is kind
    assert words in str(error)
    assert hint in (error.hint or "")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (kind, str(error))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown precision": ({"precision": "fp8"}, "fp8"),
    "a GPU's precision on a CPU": ({"precision": "tf32"}, "tf32 is a GPU's"),
    "a wrt input that is not there": ({"wrt_inputs": ["z"]}, "'z'"),
    "a wrt pattern without a match": ({"wrt": "nothing*"}, r"nothing\*"),
    "wrong memory limit": ({"memory_limit": "much"}, "much"),
    "wrong rows": ({"rows": (3, 1)}, "rows"),
    "rows with a step": ({"rows": range(0, 4, 2)}, "rows"),
    "a target of another kind": ({"target": "cosine"}, "pairwise"),
    "a second batch of another shape": ({"target": jacserve.pairwise(np.ones((2, 5), np.float32))}, "second input"),
    "a method of an ONNX graph": ({"method": "call"}, "method"),
    "text as input": ({"x": np.array(["a", "b"])}, "type"),
    "a scalar as input": ({"x": np.float32(1)}, "scalar"),
    "a batch of another width": ({"x": np.ones((2, 5), np.float32)}, "x"),
    "another number of inputs": ({"x": {"x": np.ones((2, 3), np.float32), "q": np.ones(2, np.float32)}}, "q"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_said_with_names(server: jacserve.Server, name: str) -> None:
    arguments, words = WRONG[name]
    with pytest.raises(jacserve.InvalidRequestError, match=words):
        jacobian_of_w(server, graph_with("Tanh", "t"), **arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"similarity": "cosinus"}, {"form": "l2"}, {"sign": 0}, {"sign": float("nan")}, {"epsilon": -1}],
)
def test_a_wrong_similarity_is_said_at_once(arguments: dict[str, Any]) -> None:
    with pytest.raises(jacserve.InvalidRequestError):
        jacserve.pairwise(np.ones((2, 3)), **arguments)


def test_rows_beyond_the_target_are_out_of_range(server: jacserve.Server) -> None:
    with pytest.raises(jacserve.RowsOutOfRangeError, match="4 rows"):
        jacobian_of_w(server, graph_with("Tanh", "t"), rows=(0, 5))


def test_what_is_no_onnx_file_is_said(server: jacserve.Server, tmp_path: Path) -> None:
    with pytest.raises(jacserve.InvalidRequestError, match="not an ONNX"):
        jacobian_of_w(server, b"\xff\xff\xffnothing")
    with pytest.raises(jacserve.InvalidRequestError, match=r"none\.onnx"):
        jacserve.jacobian(tmp_path / "none.onnx", np.ones(2), server=server)


def test_forgotten_weights_are_named(server: jacserve.Server, mlp: Case) -> None:
    with pytest.raises(jacserve.InvalidRequestError, match=r"0\.weight.*no value"):
        jacserve.jacobian(mlp.graph, mlp.inputs["x"], server=server)


def test_weights_that_the_graph_lacks_are_warned_of(server: jacserve.Server, mlp: Case) -> None:
    weights = {**np.load(mlp.weights), "head.kernel": np.ones((3, 2), np.float32)}
    with pytest.warns(UserWarning, match=r"lacks 1 of the \d+ weights.*head\.kernel"):
        jacserve.jacobian(mlp.graph, mlp.inputs["x"], weights=weights, server=server)


def test_a_misspelt_weight_is_named_beside_what_was_meant(server: jacserve.Server, mlp: Case) -> None:
    weights = dict(np.load(mlp.weights))
    weights["0/weight"] = weights.pop("0.weight")
    with pytest.raises(jacserve.InvalidRequestError, match=r"0/weight \(did you mean 0\.weight\?\)"):
        jacserve.jacobian(mlp.graph, mlp.inputs["x"], weights=weights, server=server)


def test_no_server_is_said_with_its_address() -> None:
    with pytest.raises(jacserve.UnavailableError, match=r"127\.0\.0\.1:1"):
        jacserve.Server("127.0.0.1:1", timeout=0.3)
    assert issubclass(jacserve.UnavailableError, ConnectionError)


def test_missing_programs_are_said_with_what_to_install(tmp_path: Path) -> None:
    code = "import jacserve; jacserve.local()"
    environment = {**os.environ, "JACSERVE_BIN": str(tmp_path), "PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ProgramNotFoundError" in done.stderr
    assert "jacserve[server]" in done.stderr
    assert "JACSERVE_SERVER" in done.stderr


def test_a_server_of_another_version_is_warned_of() -> None:
    with ScriptedServer(version="7.1.0") as scripted, pytest.warns(UserWarning, match=r"7\.1\.0"):
        jacserve.connect(scripted.address).close()


def test_a_server_that_lacks_a_method_is_a_version_mismatch() -> None:
    with (
        ScriptedServer() as scripted,
        jacserve.connect(scripted.address) as connected,
        pytest.raises(jacserve.VersionMismatchError, match=jacserve.__version__),
    ):
        jacobian_of_w(connected, graph_with("Tanh", "t"))


def test_the_token_goes_with_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(lambda request, context: events.answer(request)) as scripted:
        with jacserve.connect(scripted.address, token="secret") as connected:
            jacobian_of_w(connected, graph_with("Tanh", "t")).rows()
        assert {metadata["authorization"] for metadata in scripted.metadata} == {"Bearer secret"}
        monkeypatch.setenv("JACSERVE_SERVER", scripted.address)
        monkeypatch.setenv("JACSERVE_TOKEN", "of the environment")
        jacobian_of_w(None, graph_with("Tanh", "t"))
        assert scripted.metadata[-1]["authorization"] == "Bearer of the environment"


def test_tls_checks_the_server_with_the_given_authority(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, *names], check=True, capture_output=True)
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())])
    answers = ScriptedServer(lambda request, context: events.answer(request), credentials=credentials)
    with answers as scripted:
        with jacserve.connect(scripted.address, tls=jacserve.TLS(ca=cert), token="t") as connected:
            assert np.array_equal(jacobian_of_w(connected, graph_with("Tanh", "t")).rows()["w"], events.WHOLE)
            x, weights = np.ones((2, 3), np.float32), {"w": np.ones((3, 2), np.float32)}
            asyncio.run(jacserve.aio.jacobian(graph_with("Tanh", "t"), x, weights=weights, server=connected))
        with pytest.raises(jacserve.UnavailableError):
            jacserve.Server(scripted.address, tls=jacserve.TLS(), timeout=0.5)
    with pytest.raises(jacserve.InvalidRequestError, match=r"none\.pem"):
        jacserve.connect("localhost:1", tls=jacserve.TLS(ca=tmp_path / "none.pem"))


@pytest.mark.parametrize("fault", ["unavailable", "damaged", "cut"])
@pytest.mark.parametrize("small", [True, False])
def test_a_stream_that_fails_is_continued_with_the_missing_rows(
    monkeypatch: pytest.MonkeyPatch, fault: str, small: bool
) -> None:
    asked: list[list[int]] = []
    if not small:
        monkeypatch.setattr(header, "SMALL_NBYTES", 0)

    def answers(request: Any, context: grpc.ServicerContext) -> Any:
        count = request.rows.count if request.HasField("rows") else 4
        if count:
            asked.append([request.rows.begin, count])
        whole = events.answer(request)
        if len(asked) != 1 or count == 0:
            yield from whole
            return
        yield from whole[:4]  # header, value, the first row
        if fault == "unavailable":
            context.abort(grpc.StatusCode.UNAVAILABLE, "draining")
        if fault == "damaged":
            yield events.chunk(1, 1, checksum=5)

    with ScriptedServer(answers) as scripted, jacserve.connect(scripted.address) as connected:
        jac = jacobian_of_w(connected, graph_with("Tanh", "t"))
        assert np.array_equal(jac.rows()["w"], events.WHOLE)
        assert asked == [[0, 4], [1, 3]]


@pytest.mark.parametrize(
    ("code", "calls"),
    [("DATA_LOSS", 1), ("INVALID_ARGUMENT", 1), ("RESOURCE_EXHAUSTED", 1), ("NOT_FOUND", 2), ("UNAVAILABLE", 10)],
)
@pytest.mark.parametrize("client", ["blocking", "async"])
def test_only_what_may_pass_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, client: str, code: str, calls: int
) -> None:
    monkeypatch.setattr(Retry.__init__, "__defaults__", (10, 0.001, 0.01, 0))
    asked = []

    def answers(request: Any, context: grpc.ServicerContext) -> Any:
        asked.append(request)
        yield events.header()
        context.abort(grpc.StatusCode[code], "the server's words")

    with ScriptedServer(answers) as scripted, jacserve.connect(scripted.address) as connected:
        arguments = {"weights": {"w": np.ones((3, 2), np.float32)}, "server": connected}
        with pytest.raises(jacserve.JacserveError, match="the server's words") as caught:
            if client == "blocking":
                jacserve.jacobian(graph_with("Tanh", "t"), np.ones((2, 3), np.float32), **arguments)
            else:
                asyncio.run(jacserve.aio.jacobian(graph_with("Tanh", "t"), np.ones((2, 3), np.float32), **arguments))
    assert caught.value.code == code
    assert len(asked) == calls
    told = ["waiting for the server: the server's words"] if code == "UNAVAILABLE" else []
    assert [record.message for record in caplog.records if record.name == "jacserve"] == told


def test_a_server_that_lost_its_uploads_is_given_them_again(server: jacserve.Server, mlp: Case) -> None:
    fresh = dict(np.load(mlp.weights))
    fresh["0.bias"] = fresh["0.bias"] + 3
    other = jacserve.jacobian(mlp.graph, mlp.inputs["x"], weights=fresh, server=server)
    with jacserve.local(1) as empty:
        empty._held.update(other.prepared.blobs)  # believes that it holds everything
        moved = jacserve.jacobian(mlp.graph, mlp.inputs["x"], weights=fresh, server=empty)
        assert np.array_equal(moved.rows()["0.weight"], other.rows()["0.weight"])
