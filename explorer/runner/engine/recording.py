"""What one rank writes down while it runs, and how the clocks of several ranks are brought together."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from explorer.runner.scripts.script import Step

WAITED_S = 3e-5
"""A wait longer than this ended when the message arrived; a shorter one found it there."""
PINGS = 20
"""Messages to and fro by which the clocks of two hosts are compared; the fastest one tells."""


@dataclass
class Recorder:
    """Times of the actions and messages of one rank, in seconds of its own clock.

    Where ``finish`` is given (a GPU, whose work goes on after the call), every action, and every wait for a
    message, ends with it, so that their times are those of the work: actions of one rank then never overlap, as
    in the schedule.
    """

    now: Callable[[], float] = time.perf_counter
    finish: Callable[[], None] | None = None
    actions: list[tuple[Step, float, float, float]] = field(default_factory=list)
    """(action, asked for, began, ended)."""
    sent: dict[tuple[int, int, bool], float] = field(default_factory=dict)
    """(channel, piece, whether gradients) -> when it was posted."""
    arrived: dict[tuple[int, int, bool], tuple[float, bool]] = field(default_factory=dict)
    """The same -> (when it was there, whether it had to be waited for)."""

    def clear(self) -> None:
        self.actions.clear()
        self.sent.clear()
        self.arrived.clear()

    def done(self) -> float:
        """The end of an action or of a wait: now, once its work is done."""
        if self.finish is not None:
            self.finish()
        return self.now()

    def action(self, step: Step, asked: float, began: float, ended: float) -> None:
        self.actions.append((step, asked, began, ended))

    def posted(self, channel: int, piece: int, gradient: bool) -> None:
        self.sent[channel, piece, gradient] = self.now()

    def message(self, channel: int, piece: int, gradient: bool, asked: float, there: float) -> None:
        self.arrived[channel, piece, gradient] = (there, there - asked > WAITED_S)

    def iteration(self, start: float) -> dict[str, Any]:
        """The records since the last clear, in seconds since ``start``."""
        return {
            "actions": [
                [str(step), asked - start, began - start, ended - start] for step, asked, began, ended in self.actions
            ],
            "sent": [[*key, when - start] for key, when in self.sent.items()],
            "arrived": [[*key, when - start, waited] for key, (when, waited) in self.arrived.items()],
        }


def recorder_for(device: torch.device) -> Recorder:
    """A recorder that waits for the device where calls return before their work is done: for the stream that
    computes, not for messages of later actions that are under way on others."""
    if device.type == "cuda":
        return Recorder(finish=lambda: torch.cuda.current_stream(device).synchronize())
    return Recorder()


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
                told = stamp.item()
                after = time.perf_counter()
                if after - before < fastest:
                    fastest = after - before
                    offset = told - (before + after) / 2
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
