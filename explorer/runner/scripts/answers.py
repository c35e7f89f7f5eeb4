"""Which messages of a rank have arrived for sure, as the messages that it gets itself tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.runner.scripts.script import MESSAGES, Do, Pieces, Script, Step, pieces_of

Message = tuple[int, int, bool]
"""(channel, piece, whether gradients)."""
RECEIVED = (Do.RECV, Do.RECV_GRADIENT)
READS_BACK = (Do.BACKWARD, Do.BACKWARD_INPUT)


def answers(script: Script, rank: int) -> Mapping[Message, tuple[Message, ...]]:
    """Message to a rank -> those of its own that the sender had waited for before it sent this one, and before none
    that it sent the rank earlier. Ranks post messages in the order of their steps, and a compute step waits for what
    it reads: so a gradient shows that what it is the gradient of arrived, and an activation of 1F1B that a gradient
    did."""
    here, arrived_before = script.devices[rank], {}
    for peer, steps in zip(script.devices, script.steps, strict=True):
        if peer == here:
            continue
        reads, feeds = pieces_of(script, peer)
        requested: set[Message] = set()
        arrived: list[Message] = []
        for step in steps:
            if step.do not in MESSAGES:
                come = [m for m in _read(step, reads, feeds) if m in requested]
                requested.difference_update(come)
                arrived += come
                continue
            channel = script.channels[step.index]
            message = (step.index, step.number, step.do in (Do.SEND_GRADIENT, Do.RECV_GRADIENT))
            if here not in (channel.src_device, channel.dst_device):
                continue
            if step.do in RECEIVED:
                requested.add(message)
            else:
                arrived_before[message] = tuple(arrived)
                arrived.clear()
    return arrived_before


def _read(step: Step, reads: Pieces, feeds: Pieces) -> Iterator[Message]:
    """The messages, local ones too, that a compute step reads."""
    if step.do is Do.FORWARD:
        yield from ((c, p, False) for c, p in reads[step.index, step.number])
    elif step.do in READS_BACK:
        yield from ((c, p, True) for c, p in feeds[step.index, step.number])
