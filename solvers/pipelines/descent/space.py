"""What moves of drafts share: the graph, a first look at costs, the devices, and which drafts are allowed."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.coarsening.coarsen import Condensed
from solvers.pipelines.descent.rough import Rough
from solvers.pipelines.descent.shares import Shares
from solvers.pipelines.descent.stage_graph import Part, Parts, StageGraph, masks_of, places_of, union
from solvers.problem.problem import Pipeline

GLUE_SHARE = 0.05
"""Stages on the devices of another may together take this share of the average work of a device: pipelines
that run several real stages on a device are INTERLEAVED."""
SMALL = 8
"""With so few stages any two may exchange super-operators, however far apart."""


class Space:
    """The drafts over the super-operators of one problem: partitions into stages that do not wait for each
    other, on no more devices than there are."""

    def __init__(self, condensed: Condensed, wider: Space | None = None) -> None:
        """wider: of a question about the same graph whose drafts hold all those of this one; what is known there of
        stages holds here too, if super-operators are the same."""
        self.problem = condensed.problem
        sample = self.problem.mini_batch // self.problem.micro_batch_choices()[-1]
        self.shape = condensed.at(sample, merge_trivial=False).shape
        alike = wider is not None and wider.rough.devices_alike and wider.shape.members == self.shape.members
        self.graph: StageGraph = wider.graph if wider is not None and alike else StageGraph(self.shape)
        self.rough: Rough = wider.rough if wider is not None and alike else Rough(condensed, self.graph)
        self.pinned = self._pinned()
        self.shares = Shares(self.problem, self.rough, union(self.pinned.values()))
        self.glue_share = GLUE_SHARE
        self._by_stage = self.problem.pipeline is Pipeline.INTERLEAVED

    def _pinned(self) -> dict[int, int]:
        """Device -> the super-operators that are pinned to it, as bits."""
        pins = self.problem.pins
        found: dict[int, int] = {}
        for node, members in enumerate(self.shape.members if pins else ()):
            for device in {pins[o] for o in members if o in pins}:
                found[device] = found.get(device, 0) | 1 << node
        return found

    def pinned_in(self, mask: int) -> list[int]:
        """The devices to which super-operators of a set are pinned."""
        return [device for device, pinned in self.pinned.items() if pinned & mask]

    def _keeps_pins(self, parts: Sequence[Part]) -> bool:
        """Whether stages on one device can have all that is pinned to it, and nothing that is pinned elsewhere."""
        homes: set[int] = set()
        for place, mask in places_of(parts).items():
            devices = self.pinned_in(mask)
            if len(devices) > 1 or (devices and (devices[0] in homes or parts[place].replicas > 1)):
                return False
            homes.update(devices)
        return True

    def allows(self, parts: Sequence[Part]) -> bool:
        """Whether the stages, a partition, are a draft of the problem."""
        choices = self.shares.choices
        for _, size, replicas, *_, host in parts:
            if host is not None:
                if parts[host].host is not None:
                    return False
                replicas = parts[host].replicas
            if replicas not in choices(size):
                return False
        if self.shares.used(parts) > self.shares.devices or not self._hosts_little(parts):
            return False
        if self.pinned and not self._keeps_pins(parts):
            return False
        return self.graph.acyclic(parts, by_stage=self._by_stage)

    def _hosts_little(self, parts: Sequence[Part]) -> bool:
        """Whether what runs on the devices of other stages is glue."""
        if self._by_stage or not any(part[6] is not None for part in parts):
            return True
        return self._hosted_s(parts) <= self.glue_s(parts)

    def _hosted_s(self, parts: Sequence[Part]) -> float:
        """Seconds of an iteration that guests take at most on the devices of a stage."""
        hosted = [0.0] * len(parts)
        for part in parts:
            if part.host is not None:
                hosted[part.host] += self.rough.work(part).busy_s
        return max(hosted)

    def _mean_s(self, parts: Sequence[Part]) -> float:
        """Seconds of an iteration that a device in use computes on average, guests left out."""
        total = sum(self.rough.work(part).busy_s * part.replicas for part in parts if part.host is None)
        return total / self.shares.used(parts)

    def glue_s(self, parts: Sequence[Part]) -> float:
        """Seconds of an iteration that guests may take on the devices of one stage."""
        return self.glue_share * self._mean_s(parts)

    def begin_at(self, parts: Sequence[Part]) -> None:
        """Allow as much glue as a draft has from which a search starts, if that is more than GLUE_SHARE."""
        mean_s = self._mean_s(parts)
        share = self._hosted_s(parts) / mean_s * (1 + 1e-9) if mean_s else 0.0
        self.glue_share = max(GLUE_SHARE, share)

    def levelled(self, parts: Parts) -> Parts:
        """The stages with slack added where one would keep fewer samples in flight than a stage that follows
        it: that one would wait for ever for what it is to forward before its first backward."""
        if not any(part[5] for part in parts):
            return parts
        after, order = self.graph.rows(masks_of(parts))
        kept = self.rough.kept(parts, after)
        samples = [count * part.size for count, part in zip(kept, parts, strict=True)]
        changed = list(parts)
        for index in reversed(order):
            part, most = parts[index], max((samples[y] for y in after[index]), default=0)
            if most > samples[index]:
                more = -(-(most - samples[index]) // part.size)
                samples[index] += more * part.size
                changed[index] = part._replace(slack=part.slack + more)
        return tuple(changed)

    def neighbours(self, parts: Sequence[Part], stage: int) -> dict[int, tuple[bool, ...]]:
        """The stages that may exchange super-operators with this one, and which way they lie: those that read
        of it (downstream, True), those it reads of (False), and its siblings, which share one of these
        with it (both ways)."""
        rows = self.graph.rows(masks_of(parts)).after
        after = set(rows[stage])
        before = {i for i, row in enumerate(rows) if stage in row}
        if len(parts) <= SMALL:
            siblings = set(range(len(parts)))
        else:
            siblings = {i for i, row in enumerate(rows) if not after.isdisjoint(row)}
            siblings.update(*(rows[i] for i in before))
        found: dict[int, tuple[bool, ...]] = dict.fromkeys(sorted(after), (True,))
        found.update(dict.fromkeys(sorted(before), (False,)))
        found.update(dict.fromkeys(sorted(siblings - after - before - {stage}), (True, False)))
        return found
