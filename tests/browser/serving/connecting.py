"""Requests over sockets of this machine, as a browser or a script makes them."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from socket import socket as Socket
from typing import Any
from urllib.parse import urlsplit

import pytest

websocket = pytest.importorskip("websocket")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def cookie(self) -> str:
        """What a browser would send from now on."""
        return self.headers["set-cookie"].partition(";")[0]


def request(address: str, path: str = "/", method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """One request. headers: names with "_" for "-"."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=named)
        answer = connection.getresponse()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, fields, answer.read().decode("utf-8", "replace"))
    finally:
        connection.close()


def connect(
    address: str,
    path: str = "live",
    origin: str | None = None,
    host: str | None = None,
    socket: Socket | None = None,
    **headers: str,
) -> Any:
    """A websocket, over a connection that is there if one is given. Raises websocket.WebSocketBadStatusException where
    it is refused."""
    named = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    own = address.rstrip("/") if origin is None else origin
    at = address.replace("http", "ws") + path
    return websocket.create_connection(at, timeout=60, origin=own, host=host, header=named, socket=socket)
