"""A server that answers like a Ray dashboard, or as badly as a test wants."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "a-token-of-the-tests"


@dataclass
class Answer:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    pause: threading.Event | None = None
    """Waited for in the middle of the body."""
    cut: bool = False
    """Whether the connection is closed without an answer."""


@dataclass
class FakeRay:
    """answer: (method, path) -> what is answered. requests: all so far, with their tokens."""

    answer: Callable[[str, str], Answer]
    address: str = ""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    bodies: dict[str, bytes] = field(default_factory=dict)


@contextmanager
def fake_ray(answer: Callable[[str, str], Answer], tls: ssl.SSLContext | None = None) -> Iterator[FakeRay]:
    fake = FakeRay(answer)

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fake.bodies[f"{self.command} {self.path}"] = body
            fake.requests.append((self.command, self.path, self.headers.get("Authorization") or ""))
            answer = fake.answer(self.command, self.path)
            if answer.cut:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            try:
                if answer.pause is not None:
                    self.wfile.write(answer.body[:1])
                    self.wfile.flush()
                    answer.pause.wait(60.0)
                    self.wfile.write(answer.body[1:])
                else:
                    self.wfile.write(answer.body)
            except OSError:  # the other side did not wait for all of it
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a handshake that the client broke off

    server = Quiet(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    scheme = "http" if tls is None else "https"
    fake.address = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def json_answer(value: object) -> Answer:
    return Answer(body=json.dumps(value).encode())
