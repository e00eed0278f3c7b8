"""A coordinator that asks for tokens and serves TLS, and who gets in."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import jacserve
from golden import Case
from processes import wait_until

TOKEN = "t" * 64


@pytest.fixture(scope="module")
def guarded(bin_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Its address, and the authority of its certificate: itself."""
    folder = tmp_path_factory.mktemp("guarded")
    cert, key = folder / "cert.pem", folder / "key.pem"
    request = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=here",
        "-days",
        "2",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *request, *names], check=True, capture_output=True)
    (folder / "tokens").write_text(f"me compute,upload {hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    command = [f"{bin_folder}/jacserve-coordinator", "--listen", "127.0.0.1:0", "--state-dir", f"{folder}/state"]
    command += ["--local-workers", "1", "--port-file", f"{folder}/port", "--tokens", f"{folder}/tokens"]
    with subprocess.Popen([*command, "--tls-cert", cert, "--tls-key", key], stdout=subprocess.DEVNULL) as process:
        try:
            port = wait_until(lambda: (folder / "port").exists() and (folder / "port").read_text(), "the port")
            yield f"127.0.0.1:{port.strip()}", cert
        finally:
            process.terminate()


def test_who_shows_the_token_gets_the_rows(
    guarded: tuple[str, Path], server: jacserve.Server, mlp: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, ca = guarded
    expected = mlp.jacobian(server).rows()
    with jacserve.connect(address, token=TOKEN, tls=jacserve.TLS(ca=ca)) as connected:
        rows = mlp.jacobian(connected).rows()
        assert all(np.array_equal(rows[name], expected[name]) for name in expected)
        asked = jacserve.aio.jacobian(mlp.graph, mlp.inputs["x"], weights=str(mlp.weights), server=connected)
        assert np.array_equal(asyncio.run(asked).value, mlp.jacobian(server).value)
    monkeypatch.setenv("JACSERVE_TOKEN", TOKEN)
    with jacserve.connect(address, tls=jacserve.TLS(ca=ca)) as connected:
        assert connected.info().workers_ready == 1


@pytest.mark.parametrize(("token", "words"), [(None, "none was given"), ("guessed", "does not know the token")])
def test_who_does_not_is_told_so(
    guarded: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, token: str | None, words: str
) -> None:
    address, ca = guarded
    monkeypatch.delenv("JACSERVE_TOKEN", raising=False)
    with pytest.raises(jacserve.AccessError, match=words) as refused:
        jacserve.connect(address, token=token, tls=jacserve.TLS(ca=ca))
    assert "JACSERVE_TOKEN" in str(refused.value)


def test_an_unencrypted_client_finds_no_server(guarded: tuple[str, Path]) -> None:
    with pytest.raises(jacserve.UnavailableError, match="no server answers"):
        jacserve.Server(guarded[0], token=TOKEN, timeout=1)
