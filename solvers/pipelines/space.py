"""What moves of drafts share: the graph, a first look at costs, the devices, and which drafts are allowed."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.coarsen import Condensed
from solvers.pipelines.rough import Rough
from solvers.pipelines.shares import Shares
from solvers.pipelines.stage_graph import Part, Parts, StageGraph, bits, mask_of
from solvers.problem import Pipeline

SMALL = 8
"""With so few stages any two may exchange super-operators, however far apart."""


class Space:
    """The drafts over the super-operators of one problem: partitions into stages that do not wait for each
    other, on no more devices than there are."""

    def __init__(self, condensed: Condensed) -> None:
        self.problem = condensed.problem
        sample = self.problem.mini_batch // self.problem.micro_batch_choices()[-1]
        self.graph = StageGraph(condensed.at(sample, merge_trivial=False).shape)
        self.rough = Rough(condensed, self.graph)
        self.shares = Shares(self.problem, self.rough)
        self._by_stage = self.problem.pipeline is Pipeline.INTERLEAVED

    def allows(self, parts: Sequence[Part]) -> bool:
        """Whether the stages, a partition, are a draft of the problem."""
        for part in parts:
            replicas = part.replicas
            if part.host is not None:
                if parts[part.host].host is not None:
                    return False
                replicas = parts[part.host].replicas
            if replicas not in self.shares.choices(part.size):
                return False
        return self.shares.used(parts) <= self.shares.devices and self.graph.acyclic(parts, by_stage=self._by_stage)

    def levelled(self, parts: Parts) -> Parts:
        """The stages with slack added where one would keep fewer samples in flight than a stage that follows
        it: that one would wait for ever for what it is to forward before its first backward."""
        if not any(part.slack for part in parts):
            return parts
        masks = tuple([part.mask for part in parts])
        after = [bits(row) for row in self.graph.successors(masks)]
        kept = self.rough.kept(parts, after)
        samples = [count * part.size for count, part in zip(kept, parts, strict=True)]
        changed = list(parts)
        for index in reversed(self.graph.order(masks)):
            part, most = parts[index], max((samples[y] for y in after[index]), default=0)
            if most > samples[index]:
                more = -(-(most - samples[index]) // part.size)
                samples[index] += more * part.size
                changed[index] = part._replace(slack=part.slack + more)
        return tuple(changed)

    def rows(self, parts: Sequence[Part]) -> tuple[int, ...]:
        """For every stage, as bits, those that read of it."""
        return self.graph.successors(tuple([part.mask for part in parts]))

    def neighbours(self, parts: Sequence[Part], stage: int) -> dict[int, tuple[bool, ...]]:
        """The stages that may exchange super-operators with this one, and which way they lie: those that read
        of it (downstream, True), those it reads of (False), and its siblings, which share one of these
        with it (both ways)."""
        rows = self.rows(parts)
        after = rows[stage]
        before = mask_of(i for i, row in enumerate(rows) if row >> stage & 1)
        siblings = 0
        for other, row in enumerate(rows):
            if row & after:
                siblings |= 1 << other
            if before >> other & 1:
                siblings |= row
        if len(parts) <= SMALL:
            siblings = (1 << len(parts)) - 1
        found: dict[int, tuple[bool, ...]] = dict.fromkeys(bits(after), (True,))
        found.update(dict.fromkeys(bits(before), (False,)))
        found.update(dict.fromkeys(bits(siblings & ~(after | before | 1 << stage)), (True, False)))
        return found
