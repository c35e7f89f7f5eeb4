"""What every rank of a script does beside operators: its steps, and the tensors of its messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from explorer.runner.scripts.script import MESSAGES, Channel, Do, Script, Step
from solvers.problem.engine import Duty

Action = tuple[int, str, int]
"""(segment, kind: F, B, I, W or U, device)."""


PACKED_BYTES = 2**18
"""Tensors that go the same way at the same time and are no larger together travel as one message: a message costs each
of its ranks as much as copying so many bytes, or more."""


def packed(sizes: Sequence[float]) -> bool:
    """Whether tensors of so many bytes are put into one message."""
    return len(sizes) > 1 and sum(sizes) <= PACKED_BYTES


def duties(script: Script, nbytes: Callable[[int, int], float]) -> dict[Action, Duty]:
    """What each kind of action of each segment has to do on each of its devices in an iteration.

    nbytes: (forward tensor, samples) -> bytes, of its gradient too. A message belongs to the action that makes what
    it carries on one rank, and on the other to the action that waits for it.
    """
    by_action: dict[Action, Duty] = defaultdict(Duty)
    split = {
        (step.index, device) for device, steps in _by_device(script) for step in steps if step.do is Do.BACKWARD_INPUT
    }
    for device, steps in _by_device(script):
        for step in steps:
            if step.do is Do.SYNC:
                continue
            if step.do not in MESSAGES:
                by_action[step.index, step.do.value, device] += Duty(runs=1)
                continue
            channel = script.channels[step.index]
            back = step.do in (Do.SEND_GRADIENT, Do.RECV_GRADIENT)
            sizes = _sizes(channel, channel.pieces[step.number].samples, back, nbytes)
            at_source = step.do in (Do.SEND, Do.RECV_GRADIENT)
            segment = channel.source if at_source else _reader(channel, back)
            kind = "F" if not back else "I" if (segment, device) in split else "B"
            if step.do in (Do.SEND, Do.SEND_GRADIENT):
                duty = Duty(sent=1 if packed(sizes) else len(sizes), sent_bytes=sum(sizes))
            else:
                duty = Duty(received=1 if packed(sizes) else len(sizes), received_bytes=sum(sizes))
            by_action[segment, kind, device] += duty
    return dict(by_action)


def _by_device(script: Script) -> list[tuple[int, tuple[Step, ...]]]:
    return list(zip(script.devices, script.steps, strict=True))


def _reader(channel: Channel, back: bool) -> int:
    """The segment that waits for a message of a channel, or whose backward ends what flows back over it."""
    return channel.senders[-1] if back and channel.senders else channel.readers[0]


def _sizes(channel: Channel, samples: int, back: bool, nbytes: Callable[[int, int], float]) -> list[float]:
    """Bytes of every tensor of a message."""
    return [
        nbytes(tensor, samples)
        for tensor, flows in zip(channel.tensors, channel.gradient, strict=True)
        if flows or not back
    ]
