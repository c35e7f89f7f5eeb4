"""Messages that a rank has posted, and their tensors for as long as these may still be read.

Torch's action loop would keep every message until the iteration ends, and with it every tensor that was sent: of a
stage on many micro-batches more than what it saves for the few that are in flight. Here a message goes as soon as it is
known to be through: where its backend tells (NCCL), when that does; where it tells only one who waits (gloo), when a
message comes back that cannot have been sent before (`explorer.runner.scripts.answers`), and waiting takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch.distributed as dist
from torch import Tensor

from explorer.runner.scripts.answers import Message


class Work(Protocol):
    """What posting a message gives."""

    def is_completed(self) -> bool: ...

    def wait(self) -> bool: ...


class Sends:
    """The messages of one rank that are under way. told_by: message that comes in -> those of this rank that have
    then arrived. send: begins to send a tensor to a rank."""

    def __init__(
        self, told_by: Mapping[Message, Sequence[Message]], send: Callable[[Tensor, int], Work | None] = dist.isend
    ) -> None:
        self._told_by, self._send = told_by, send
        self._under_way: dict[Message, list[Work]] = {}

    def post(self, message: Message, tensors: Sequence[Tensor], peer: int) -> None:
        """Begins to send tensors, which nobody may change until they are through; whoever drops them frees them
        then."""
        self._drop([m for m, works in self._under_way.items() if all(work.is_completed() for work in works)])
        self._under_way[message] = [work for tensor in tensors if (work := self._send(tensor, peer)) is not None]

    def answered(self, message: Message) -> None:
        """Lets go of what has arrived, now that this message came in."""
        self._drop([m for m in self._told_by.get(message, ()) if m in self._under_way])

    def finish(self) -> None:
        """Waits for all that is under way."""
        self._drop(list(self._under_way))

    def _drop(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for work in self._under_way.pop(message):
                work.wait()  # also where it is completed: till then the work keeps its tensor
