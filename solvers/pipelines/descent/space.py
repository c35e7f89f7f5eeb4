"""A question for searches over drafts: its graph, costs and rules as arrays, and drafts to and from these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.downsets import order_of
from solvers.kernels.arrays import Floats
from solvers.pipelines.costs import SizeCosts, size_costs
from solvers.pipelines.descent.facts import SIZE, Costs, Facts, Graph, Rules, Stages
from solvers.pipelines.descent.looks_kernel import FirstLook, first_look, tidied
from solvers.pipelines.recomputation.levels import choices_allowed
from solvers.pipelines.seating import Seating
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.problem import SEVERAL_STAGES, Pipeline

GLUE_SHARE = 0.05
"""Stages on the devices of another may together take this share of the average work of a device: pipelines that run
several real stages on a device are INTERLEAVED."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A draft as arrays, by its stages' first super-operators; equal ones are equal."""

    stages: Stages
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.stages.of.tobytes() + self.stages.table.tobytes())

    def __len__(self) -> int:
        return len(self.stages.table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parts) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def parts_of(draft: Draft) -> Parts:
    """The stages of a draft over super-operators."""
    stages = draft.stages
    of = np.empty(sum(len(stage.operators) for stage in stages), np.int64)
    for number, stage in enumerate(stages):
        of[list(stage.operators)] = number
    rows = [
        (s.micro_batch_size, s.replicas, s.recompute, s.block, s.slack, number if s.host is None else s.host)
        for number, s in enumerate(stages)
    ]
    return Parts(tidied(Stages(of, np.array(rows, np.int64))))


def draft_of(parts: Parts) -> Draft:
    """The draft of these stages."""
    of, table = parts.stages
    order = np.argsort(of, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(of))[:-1])
    return Draft(
        tuple(
            DraftStage(tuple(own.tolist()), size, replicas, again, block, slack, None if host == number else host)
            for number, (own, (size, replicas, again, block, slack, host)) in enumerate(
                zip(members, table.tolist(), strict=True)
            )
        )
    )


class Space:
    """The drafts over the super-operators of one problem: partitions into stages that do not wait for each other, on no
    more devices than there are."""

    def __init__(self, condensed: Condensed, order: Sequence[int] = ()) -> None:
        """order: super-operators of which every stage is to be a run, in this topological order; empty for any."""
        self.condensed, self.problem = condensed, condensed.problem
        self._sizes: dict[int, SizeCosts] = {}
        samples = self.problem.mini_batch // self.problem.micro_batch_choices()[-1]
        shape = condensed.at(samples, merge_trivial=False).shape
        self.facts = Facts(
            _graph([*shape.edges, *pairwise(order)], len(shape)), self._costs([samples]), self._rules(shape.members)
        )

    def _rules(self, members: Sequence[Sequence[int]]) -> Rules:
        problem, seating = self.problem, Seating(self.problem)
        caps = sorted((problem.cluster.devices[d].memory_bytes for d in problem.cluster.accelerators), reverse=True)
        counts = np.bincount(list(seating.kind_of.values()), minlength=len(seating.kinds))
        pins = [next((problem.pins[o] for o in own if o in problem.pins), -1) for own in members]
        return Rules(
            devices=len(caps),
            mini_batch=problem.mini_batch,
            backward=problem.has_backward(),
            all_in_flight=problem.pipeline is Pipeline.GPIPE,
            runs_ahead=problem.may_run_ahead,
            again=np.array(choices_allowed(problem), np.int64),
            mixed=problem.mixed_micro_batches,
            by_stage=problem.pipeline in SEVERAL_STAGES,
            sizes=np.array([problem.mini_batch // count for count in problem.micro_batch_choices()], np.int64),
            caps=np.array(caps, np.float64),
            kinds=counts.astype(np.int64),
            slower=np.array(seating.slower, np.float64),
            pinned=np.array(pins, np.int64),
            glue_share=GLUE_SHARE,
        )

    def _costs(self, sizes: Iterable[int]) -> Costs:
        """The costs at all sizes that were met so far, and at these."""
        for size in sizes:
            if size not in self._sizes:
                self._sizes[size] = size_costs(self.condensed, size)
        known, devices = self._sizes, len(self.problem.cluster.accelerators)
        row, first = np.full((len(known), devices + 1), -1, np.int64), 0
        for k, costs in enumerate(known.values()):
            row[k, costs.degrees] = first + np.arange(len(costs.degrees))
            first += len(costs.degrees)
        one = next(iter(known.values()))
        sent = [
            (maker, message)
            for message in np.flatnonzero(~one.traffic.backward).tolist()
            for maker in one.traffic.makers[message].tolist()
        ]
        return Costs(
            sizes=np.array(list(known), np.int64),
            row=row,
            amounts=np.concatenate(
                [_amounts(costs, level) for level in range(1 + len(one.levels.again_s)) for costs in known.values()]
            ),
            sync_s=np.concatenate([np.stack([c.sync_s, c.sync_s_per_byte], axis=1) for c in known.values()]),
            sent=np.array(sorted(sent), np.int64).reshape(-1, 2),
            reader_start=one.traffic.readers.start,
            reader=one.traffic.readers.items,
            messages=np.concatenate([np.stack([c.message_s, c.message_bytes], axis=1) for c in known.values()]),
        )

    def near(self, stages: Stages) -> Facts:
        """What moves read that begin at a draft: with the costs of its micro-batches, and of those they may become."""
        here = {int(size) for size in stages.table[:, SIZE]}
        allowed_sizes = set(self.facts.rules.sizes.tolist())
        wanted = here | {other for size in here for other in (size // 2, size * 2) if other in allowed_sizes}
        if not wanted <= self._sizes.keys():
            self.facts = self.facts._replace(costs=self._costs(sorted(wanted)))
        return self.facts

    def first_look(self, parts: Parts) -> FirstLook:
        """What is known of a draft, a partition, before any estimate."""
        return first_look(self.near(parts.stages), parts.stages)

    def allows(self, parts: Parts) -> bool:
        """Whether the stages, a partition, are a draft of the problem."""
        return bool(self.first_look(parts).allowed)

    def levelled(self, parts: Parts) -> Parts:
        """The stages with as much slack as none of them waits for ever: see `looks_kernel.levelled`."""
        return Parts(self.first_look(parts).level)

    def begin_at(self, parts: Parts) -> None:
        """Allow as many auxiliary operators as the starting draft has, if that is more than GLUE_SHARE."""
        share = max(GLUE_SHARE, self.first_look(parts).glue_share * (1 + 1e-9))
        self.facts = self.facts._replace(rules=self.facts.rules._replace(glue_share=share))


def _graph(edges: Iterable[tuple[int, int]], count: int) -> Graph:
    pairs = sorted(set(edges))
    order = order_of(pairs, count)
    start, near = np.stack([order.after_start, order.before_start]), np.stack([order.after, order.before])
    return Graph(np.array(pairs, np.int64).reshape(-1, 2), start, near)


def _amounts(costs: SizeCosts, level: int) -> Floats:
    """[degrees, 6, super-operators]: see `Costs`. level: 0 for what is not run again, else one more than its number."""
    params = np.broadcast_to(costs.param_bytes, costs.forward_s.shape)
    backward_s, saved = costs.backward_s, (costs.saved_bytes, costs.workspace_bytes)
    if level:
        lean = costs.levels
        backward_s = backward_s + lean.again_s[level - 1]
        saved = (lean.saved_bytes[level - 1], lean.workspace_bytes[level - 1])
    return np.stack([costs.forward_s, backward_s, *saved, costs.static_bytes, params], axis=1).astype(np.float64)
