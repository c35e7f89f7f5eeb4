"""A plan before its devices are chosen: what planners of pipelines search over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solvers.plan.plan import Region

NOTHING, WHOLE, FIRST_LEVEL = 0, 1, 2
"""What a stage runs again before its backward: nothing, its whole forward, or what the first level of
`solvers.pipelines.recomputation.levels` says, that of the next number the second, and so on."""


@dataclass(frozen=True, slots=True)
class DraftStage:
    """A stage that still lacks its devices.

    operators: positions in the graph, in any order. replicas: how many devices share every micro-batch.
    micro_batch_size: samples. block: how many forwards, or backwards, run in a row (the k of kFkB).
    slack: micro-batches in flight beyond what `in_flight_samples` asks for, which hide the round trip of
    transfers. host: the position of the stage whose devices it shares, for operators that take next to
    no time and would waste a device (None: devices of its own). recompute: what runs again before its backward, as
    numbered above. regions: where that is nothing, operators that do all the same, found before (`Stage.regions`);
    those of other stages among them are left out.
    """

    operators: tuple[int, ...]
    micro_batch_size: int
    replicas: int = 1
    recompute: int = NOTHING
    block: int = 1
    slack: int = 0
    host: int | None = None
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """Stages that partition the operators; which of them follow which follows from the tensors."""

    stages: tuple[DraftStage, ...]

    def devices(self) -> int:
        """How many devices it takes."""
        return sum(stage.replicas for stage in self.stages if stage.host is None)

    def expanded(self, members: Sequence[Sequence[int]]) -> Draft:
        """The same draft with what is put together in each position in its place. members: of every position."""
        stages = [replace(s, operators=tuple(o for node in s.operators for o in members[node])) for s in self.stages]
        return Draft(tuple(stages))

    def textbook(self) -> Draft:
        """The same draft as 1F1B runs it: no stage keeps more in flight than it has to, or runs several in a row."""
        return Draft(tuple(replace(stage, block=1, slack=0) for stage in self.stages))
