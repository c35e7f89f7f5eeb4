"""Ports of this machine for servers of tests."""

from __future__ import annotations

import random
import socket

FROM, TO = 20_000, 32_000
"""Below those that systems give to connections: none of these takes the port before its server does."""


def free_port() -> int:
    """One that nobody listens at; another each time, in other processes too."""
    chance = random.SystemRandom()
    while True:
        with socket.socket() as probe:
            port = chance.randrange(FROM, TO)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
