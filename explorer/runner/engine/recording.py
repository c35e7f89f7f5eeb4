"""What one rank writes down while it runs, and how the clocks of several ranks are brought together."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.distributed as dist

from explorer.runner.measuring.events import Events
from explorer.runner.model.exchanges.group import Exchanged
from explorer.runner.scripts.script import Step

WAITED_S = 3e-5
"""A wait longer than this ended when the message arrived; a shorter one found it there."""
PINGS = 20
"""Messages to and fro by which the clocks of two hosts are compared; the fastest one counts."""


class Clock(Protocol):
    """Stamps while work is under way, and their times afterwards."""

    def start(self) -> None:
        """Before the work, with the device idle."""

    def stamp(self) -> float:
        """This moment, as `seconds` understands it after `finish`."""
        ...

    def finish(self) -> None:
        """Wait until all the work is done."""

    def seconds(self, stamp: float) -> float:
        """A stamp by this host's clock (`time.perf_counter`)."""
        ...


class HostClock:
    """Calls return when their work is done: a stamp is the time."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.stamp = now

    def start(self) -> None: ...

    def finish(self) -> None: ...

    def seconds(self, stamp: float) -> float:
        return stamp


class StreamClock:
    """Calls only queue their work: a stamp is the number of an event in the queue of the stream that computes, which
    comes when the device does. So an action begins when the device has what it waited for, and ends with its work, and
    the queue is waited for once, in `finish`. The first event, at `start`, stands for the host's time then."""

    def __init__(self, events: Events, now: Callable[[], float] = time.perf_counter) -> None:
        self._events, self._now = events, now
        self._began = 0.0

    def start(self) -> None:
        self._events.start()
        self._events.mark()
        self._began = self._now()

    def stamp(self) -> float:
        if not self._events.used:  # nobody will ask for the times
            self.start()
        return float(self._events.mark())

    def finish(self) -> None:
        self._events.synchronize()

    def seconds(self, stamp: float) -> float:
        return self._began + self._events.seconds(int(stamp))


@dataclass
class Recorder:
    """Stamps of the actions and messages of one rank, by its own clock: actions of one rank never overlap, as in the
    schedule."""

    clock: Clock = field(default_factory=HostClock)
    actions: list[tuple[Step, float, float, float]] = field(default_factory=list)
    """(action, asked for, began, ended)."""
    sent: dict[tuple[int, int, bool], float] = field(default_factory=dict)
    """(channel, piece, whether gradients) -> when it was posted."""
    arrived: dict[tuple[int, int, bool], tuple[float, float]] = field(default_factory=dict)
    """The same -> (when it was asked for, when it was there)."""

    def start(self) -> None:
        """Forget what was, and begin an iteration."""
        self.actions.clear()
        self.sent.clear()
        self.arrived.clear()
        self.clock.start()

    def now(self) -> float:
        """A stamp."""
        return self.clock.stamp()

    def finish(self) -> None:
        """The end of an iteration: once its work is done."""
        self.clock.finish()

    def action(self, step: Step, requested: float, began: float, ended: float) -> None:
        self.actions.append((step, requested, began, ended))

    def posted(self, channel: int, piece: int, gradient: bool) -> None:
        self.sent[channel, piece, gradient] = self.now()

    def message(self, channel: int, piece: int, gradient: bool, requested: float, there: float) -> None:
        self.arrived[channel, piece, gradient] = (requested, there)

    def iteration(self, start: float, exchanged: Sequence[Exchanged] = ()) -> dict[str, list[list[object]]]:
        """The records of an iteration that was finished, in seconds since ``start``. Of a message also whether it had
        to be waited for. exchanged: with the other members of a group."""
        at = self.clock.seconds
        return {
            "actions": [[str(step), *(at(stamp) - start for stamp in stamps)] for step, *stamps in self.actions],
            "exchanged": [[e.kind, e.sent_bytes, at(e.began) - start, at(e.ended) - start] for e in exchanged],
            "sent": [[*key, at(stamp) - start] for key, stamp in self.sent.items()],
            "arrived": [
                [*key, at(there) - start, at(there) - at(requested) > WAITED_S]
                for key, (requested, there) in self.arrived.items()
            ],
        }


def recorder_for(device: torch.device) -> Recorder:
    """A recorder by the clock of the device."""
    return Recorder(StreamClock(Events(device))) if device.type == "cuda" else Recorder()


def clock_offsets(ranks: int, rank: int, device: torch.device) -> float:
    """Seconds to add to this rank's clock to get that of rank 0: 0 on the same host, which has one monotonic
    clock; else by the fastest of some messages to and fro (Cristian 1989). Every rank must call it."""
    hosts: list[Any] = [None] * ranks
    dist.all_gather_object(hosts, socket.gethostname())
    offset = 0.0
    for other in range(1, ranks):
        if hosts[other] == hosts[0]:
            continue
        fastest = float("inf")
        for _ in range(PINGS):
            stamp = torch.zeros(1, dtype=torch.float64, device=device)
            if rank == 0:
                dist.recv(stamp, other)
                stamp.item()  # on a GPU this is what waits
                dist.send(torch.full_like(stamp, time.perf_counter()), other)
            elif rank == other:
                before = time.perf_counter()
                dist.send(stamp, 0)
                dist.recv(stamp, 0)
                there = stamp.item()
                after = time.perf_counter()
                if after - before < fastest:
                    fastest = after - before
                    offset = there - (before + after) / 2
    return offset


def start_together(rank: int, offset: float, device: torch.device, ahead_s: float = 2e-3) -> float:
    """Waits until all ranks begin an iteration; returns that moment by this rank's clock: the same for a rank that
    was held up and begins later, or its times would be of another clock."""
    dist.barrier()
    moment = torch.zeros(1, dtype=torch.float64, device=device)
    if rank == 0:
        moment.fill_(time.perf_counter() + ahead_s)
    dist.broadcast(moment, 0)
    start = moment.item() - offset
    while time.perf_counter() < start:
        pass
    return start
