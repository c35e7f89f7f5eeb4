"""What strangers ask for that is not there, or that is no question, is their fault: 4xx, and the page is served on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from explorer.web.app import Config, create_app
from tests.browser.fakes.fake_backend import FakeBackend

JSON = (b"content-type", b"application/json")
BODIES = (
    b"", b"{}", b"[]", b"null", b"1", b"\xff\x00", b"[" * 100_000, b'{"output":"a.b","changedPropIds":[],"inputs":[]}',
    b'{"output":1}', b'{"output":"session.data","outputs":[],"inputs":[{"id":"x"}],"changedPropIds":["x"]}',
)  # fmt: skip
ADDRESSES = (
    "/nothing", "/nothing/here.js", "/assets/nothing.js", "/assets/../pyproject.toml", "/assets/\x00", "/assets/",
    "/_dash-nothing", "/_dash-component-suites/dash/nothing.js", "/_dash-component-suites/nothing/x.js",
    "/_dash-component-suites/dash/../../x", "/_dash-component-suites/os/path.py", "/take/nothing", "/live", "/%2e%2e/x",
    "/.git/config", "//etc/passwd", "/" + "a" * 5_000,
)  # fmt: skip


class Client:
    """Requests to an ASGI application that has started, one after the other; the status and content of each."""

    def __init__(self) -> None:
        self.app = create_app(Config(FakeBackend())).server
        asyncio.run(self._start())

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = (JSON,)
    ) -> tuple[int, bytes]:
        return asyncio.run(self._request(method, path, body, headers))

    async def _start(self) -> None:
        """Dash adds routes of its own when the server starts."""
        messages = iter(("lifespan.startup", "lifespan.shutdown"))

        async def receive() -> dict[str, object]:
            return {"type": next(messages)}

        async def send(_: object) -> None:
            pass

        await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

    async def _request(self, method: str, path: str, body: bytes, headers: Iterable[tuple[bytes, bytes]]):
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"127.0.0.1"), *headers],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http", "root_path": "",
        }  # fmt: skip
        sent: list[dict] = []
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, object]:
            for message in messages:
                return message
            await asyncio.Event().wait()  # the other end is there until the answer has come
            raise AssertionError

        async def send(message: dict) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.fixture(scope="module")
def client() -> Client:
    return Client()


def test_what_the_page_needs_is_served(client: Client) -> None:
    for path in ("/", "/assets/page.css", "/_dash-layout", "/_dash-dependencies"):
        status, content = client.request("GET", path)
        assert (status, bool(content)) == (200, True)


@pytest.mark.parametrize("path", ADDRESSES)
def test_an_address_that_nothing_is_at_is_a_404(client: Client, path: str) -> None:
    status, content = client.request("GET", path)
    assert status == 404
    assert b"Traceback" not in content
    assert b"<html" not in content


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/_dash-update-component", "/_dash-layout", "/assets/page.css", "/open"]
)
def test_a_request_that_is_junk_is_refused(client: Client, path: str) -> None:
    for body in BODIES:
        for kind in (b"application/json", b"text/plain", b"multipart/form-data; boundary=x", b"\xff"):
            assert 400 <= client.request("POST", path, body, [(b"content-type", kind)])[0] < 500
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "NONSENSE", "TRACE"):
        assert 400 <= client.request(method, path, b"{}")[0] < 500


def test_a_file_that_is_handed_in_needs_a_page(client: Client) -> None:
    for headers in ([], [(b"x-page-token", b"\xff")], [(b"x-page-token", b"x"), (b"content-length", b"-1")]):
        assert client.request("POST", "/open", b"{}", headers)[0] == 403
