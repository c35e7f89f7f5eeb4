"""Which messages of a rank have arrived for sure, as the messages that it gets itself tell it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from explorer.runner.scripts.script import Do, Script, Step

Message = tuple[int, int, bool]
"""(channel, piece, whether gradients)."""
SENT = {Do.SEND: False, Do.SEND_GRADIENT: True}
RECEIVED = {Do.RECV: False, Do.RECV_GRADIENT: True}
"""Whether gradients."""
READS_BACK = (Do.BACKWARD, Do.BACKWARD_INPUT)


def answers(script: Script, rank: int) -> Mapping[Message, tuple[Message, ...]]:
    """Message to a rank -> those of its own that the sender had waited for before it sent this one, and before none
    that it sent the rank earlier. Ranks post messages in the order of their steps, and a compute step waits for what
    it reads: so a gradient tells that what it is the gradient of arrived, and an activation of 1F1B that a gradient
    did."""
    here, found = script.devices[rank], {}
    for peer, steps in zip(script.devices, script.steps, strict=True):
        if peer == here:
            continue
        read = _read(script, here, peer)
        asked: set[Message] = set()
        arrived: list[Message] = []
        for step in steps:
            message = (step.index, step.number, step.do in (Do.SEND_GRADIENT, Do.RECV_GRADIENT))
            if step.do in RECEIVED:
                asked.add(message)
            elif step.do in SENT:
                if _receiver(script, message) == here:
                    found[message] = tuple(arrived)
                    arrived.clear()
            else:
                come = [m for m in read[_reading(step)] if m in asked]
                asked.difference_update(come)
                arrived += come
    return found


def _receiver(script: Script, message: Message) -> int:
    channel = script.channels[message[0]]
    return channel.src_device if message[2] else channel.dst_device


def _reading(step: Step) -> tuple[int, int, bool] | None:
    """(segment, micro-batch, whether it reads gradients) of a compute step that reads any messages."""
    if step.do is Do.FORWARD:
        return step.index, step.number, False
    return (step.index, step.number, True) if step.do in READS_BACK else None


def _read(script: Script, sender: int, reader: int) -> Mapping[tuple[int, int, bool] | None, Iterable[Message]]:
    """What the steps of one device read of the messages of another one."""
    found: dict[tuple[int, int, bool] | None, list[Message]] = defaultdict(list)
    for c, channel in enumerate(script.channels):
        if (channel.src_device, channel.dst_device) == (sender, reader):
            for p, piece in enumerate(channel.pieces):
                for segment in channel.readers:
                    found[segment, piece.read_in, False].append((c, p, False))
        elif (channel.src_device, channel.dst_device) == (reader, sender):
            for p, piece in enumerate(channel.pieces):
                found[channel.source, piece.sent_in, True].append((c, p, True))
    return found
