"""What was sent is freed when it has arrived: live storages, under gloo; and under a backend that reports it."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from explorer.runner.engine.sending import Sends

Groups = list[Any]


@pytest.fixture(scope="module")
def groups() -> Groups:
    """The same group as two ranks of it have it, both in this process."""
    store, made = dist.HashStore(), [None, None]  # type: ignore[attr-defined]

    def join(rank: int) -> None:
        made[rank] = dist.ProcessGroupGloo(store, rank, 2)  # type: ignore[attr-defined]

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


def posted(sends: Sends, message: tuple[int, int, bool], value: float) -> weakref.ref[Any]:
    """What lives as long as the storage that is sent does."""
    tensor = torch.full((1000,), value)
    alive = weakref.ref(tensor.untyped_storage())
    sends.post(message, (tensor,), 1)
    return alive


def test_a_storage_is_free_once_an_answer_tells_that_it_arrived(groups: Groups) -> None:
    answered_by = {(0, 0, True): ((0, 0, False),), (0, 1, True): ((0, 1, False), (0, 2, False))}
    sends = Sends(answered_by, lambda tensor, peer: groups[0].send([tensor], peer, 0))
    alive = [posted(sends, (0, m, False), float(m)) for m in range(4)]
    for m in range(4):
        received = torch.zeros(1000)
        groups[1].recv([received], 0, 0).wait()
        assert received.tolist() == [float(m)] * 1000
    assert all(storage() is not None for storage in alive)
    sends.answered((0, 0, True))
    assert [storage() is not None for storage in alive] == [False, True, True, True]
    sends.answered((0, 1, True))
    assert [storage() is not None for storage in alive] == [False, False, False, True]
    sends.finish()
    assert alive[3]() is None


@dataclass
class NcclMessage:
    """A message as NCCL has them: it reports when it is through, and keeps its tensor until somebody waits."""

    tensor: Tensor | None
    through: bool = False

    def is_completed(self) -> bool:
        return self.through

    def wait(self) -> bool:
        self.tensor = None
        return True


def test_a_message_that_tells_is_let_go_when_the_next_one_is_posted() -> None:
    works: list[NcclMessage] = []

    def send(tensor: Tensor, peer: int) -> NcclMessage:
        works.append(NcclMessage(tensor))
        return works[-1]

    sends = Sends({}, send)
    first, second = posted(sends, (0, 0, False), 0.0), posted(sends, (0, 1, False), 1.0)
    works[0].through = True
    third = posted(sends, (0, 2, False), 2.0)
    assert [storage() is not None for storage in (first, second, third)] == [False, True, True]
    sends.finish()
    assert second() is None
    assert third() is None
    assert [work.tensor for work in works] == [None] * 3
