"""Wrong tokens cost time: whoever goes on guessing waits longer and longer."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

FREE = 3
"""Wrong tokens in a row that cost nothing: one mistypes."""
LONGEST_S = 60.0
FORGOTTEN_S = 900.0
REMEMBERED = 4096
"""Addresses at most; the oldest is forgotten first."""


class Guesses:
    """By address, an IPv6 network of 64 bits counting as one. clock: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[int, float, float]] = OrderedDict()
        """How many in a row, until when nothing more is looked at, when the last one was."""

    def wait_s(self, address: str) -> float:
        """How long nothing that comes from there is looked at; 0 for no time."""
        _, until, _ = self._wrong.get(_network(address), (0, 0.0, 0.0))
        return max(0.0, until - self._clock())

    def wrong(self, address: str) -> None:
        now, network = self._clock(), _network(address)
        count, _, last = self._wrong.pop(network, (0, 0.0, now))
        count = 1 if now - last > FORGOTTEN_S else count + 1
        pause = min(LONGEST_S, 2.0 ** (count - FREE)) if count > FREE else 0.0
        self._wrong[network] = count, now + pause, now
        while len(self._wrong) > REMEMBERED:
            self._wrong.popitem(last=False)

    def right(self, address: str) -> None:
        self._wrong.pop(_network(address), None)


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    return str(ipaddress.ip_network((found, 64), strict=False))
