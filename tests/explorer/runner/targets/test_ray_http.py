"""A server may answer anything, late or never: the client reports it in a line, and no token goes elsewhere."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.runner.targets.ray_http import Refused, Stopped, Unreachable, server_at
from solvers.errors import RunError
from tests.explorer.runner.targets.fake_ray import TOKEN, Answer, fake_ray, json_answer


def test_the_token_goes_along_and_is_blotted_out_of_what_comes_back() -> None:
    with fake_ray(lambda method, path: Answer(body=f"you sent {TOKEN}".encode())) as fake:
        server = server_at("target t", f"{fake.address}/behind/a/proxy/", TOKEN)
        reply = server.request("GET", "/api/version")
    assert fake.requests == [("GET", "/behind/a/proxy/api/version", f"Bearer {TOKEN}")]
    assert (reply.status, reply.body) == (200, "you sent <token>")
    assert TOKEN not in repr(server)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with fake_ray(lambda method, path: json_answer({})) as other:
        elsewhere = Answer(status, headers={"Location": f"{other.address}/api/version"})
        with (
            fake_ray(lambda method, path: elsewhere) as fake,
            pytest.raises(Refused, match="which is not followed"),
        ):
            server_at("target t", fake.address, TOKEN).request("GET", "/api/version")
    assert other.requests == []


def test_a_reply_that_is_too_large_is_cut_off() -> None:
    with (
        fake_ray(lambda method, path: Answer(body=bytes(5_000))) as fake,
        pytest.raises(Refused, match="more than 1,000 bytes"),
    ):
        server_at("target t", fake.address).request("GET", "/", most_bytes=1_000)


def test_a_reply_that_does_not_end_is_not_waited_for() -> None:
    pause = threading.Event()
    with fake_ray(lambda method, path: Answer(body=b"abc", pause=pause)) as fake:
        server = server_at("target t", fake.address)
        with pytest.raises(Unreachable, match=r"no answer within 0\.3 s"):
            server.request("GET", "/", timeout_s=0.3)
        with pytest.raises(Stopped):
            server.request("GET", "/", timeout_s=60.0, should_stop=lambda: bool(fake.requests))
        pause.set()
    assert not [thread for thread in threading.enumerate() if thread.name == "request"]


def test_no_answer_at_all_is_reported() -> None:
    with fake_ray(lambda method, path: Answer(cut=True)) as fake:
        server = server_at("target t", fake.address)
        with pytest.raises(Unreachable, match=r"connection|closed|HTTP"):
            server.request("GET", "/")
    with pytest.raises(Unreachable, match="connection refused"):
        server.request("GET", "/")


def test_what_speaks_no_http_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def babble() -> None:
            with listener.accept()[0] as other:
                other.recv(1000)
                other.sendall(b"\x00\x01 this is no HTTP\r\n\r\n")

        thread = threading.Thread(target=babble)
        thread.start()
        with pytest.raises(Unreachable, match="does not speak HTTP"):
            server_at("target t", f"http://127.0.0.1:{listener.getsockname()[1]}").request("GET", "/")
        thread.join()


@pytest.mark.parametrize(
    ("address", "token", "message"),
    [
        ("https://head.example.org:8265", "", "is not this machine and needs a token"),
        ("http://head.example.org:8265", TOKEN, "would go to head.example.org unencrypted"),
        ("http://10.0.0.1:8265", "", "is not this machine and needs a token"),
        ("http://me:secret@127.0.0.1:8265", "", "without user, password"),
        ("http://127.0.0.1:8265/?token=secret", "", "without user, password"),
        ("ftp://127.0.0.1", "", "expected http(s)://host:port"),
        ("127.0.0.1:8265", "", "expected http(s)://host:port"),
        ("http://127.0.0.1:99999", "", "expected http(s)://host:port"),
        ("http://[::1", "", "expected http(s)://host:port"),
        ("http://127.0.0.1:8265", "two words", "characters that a token cannot have"),
        ("http://127.0.0.1:8265", "a\r\nX-Other: b", "characters that a token cannot have"),
    ],
)
def test_what_is_not_safe_to_ask_is_refused(address: str, token: str, message: str) -> None:
    with pytest.raises(RunError, match=r"^target t: ") as refused:
        server_at("target t", address, token)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)
    assert not token or token not in str(refused.value)


def test_the_owner_may_allow_plain_http() -> None:
    assert server_at("target t", "http://10.0.0.1:8265", TOKEN, allow_plain_http=True).token == TOKEN
    assert server_at("target t", "http://[::1]:8265").tls is None


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, which nobody knows, and host.pem and host.key for 127.0.0.1, signed by it."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make certificates with")
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "host.cnf").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "host.cnf", "-out", "host.pem"]
    for command in (
        ["req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests", "-days", "2"],
        ["req", *key, "-keyout", "host.key", "-out", "host.csr", "-subj", "/CN=host"],
        ["x509", "-req", "-in", "host.csr", "-days", "2", *signed],
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def guarded(certificates: Path) -> Iterator[tuple[str, Path]]:
    """The address of a server with that certificate, and the file of its authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "host.pem", certificates / "host.key")
    with fake_ray(lambda method, path: json_answer({"fine": True}), context) as fake:
        yield fake.address, certificates / "ca.pem"


def test_tls_trusts_the_authority_of_the_file_and_no_other(guarded: tuple[str, Path]) -> None:
    address, authority = guarded
    trusting = server_at("target t", address, TOKEN, ca_file=str(authority))
    assert trusting.request("GET", "/").body == '{"fine": true}'
    with pytest.raises(Refused, match="its certificate is not trusted"):
        server_at("target t", address, TOKEN).request("GET", "/")
    other_name = server_at("target t", address.replace("127.0.0.1", "localhost"), TOKEN, ca_file=str(authority))
    with pytest.raises(Refused, match="its certificate is not trusted"):
        other_name.request("GET", "/")
    careless = server_at("target t", address, TOKEN, verify_tls=False)
    assert careless.request("GET", "/").status == 200


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "not-there.pem"):
        with pytest.raises(RunError, match="no certificates can be read there"):
            server_at("target t", "https://127.0.0.1:8265", ca_file=str(tmp_path / name))
