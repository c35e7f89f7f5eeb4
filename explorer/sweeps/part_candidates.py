"""Which parts of a model are worth groups of a size of their own: branches that run beside each other, and the two
ends of a chain where devices are of two kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from explorer.question.models.part_degrees import PartDegrees
from solvers.problem.cluster import Cluster
from solvers.problem.graph import OpGraph, Phase

BRANCH = 0.01
"""Share of a model's FLOPs from which on a module beside others is a part of its own."""
MOST_BRANCHES = 6
MOST_COMBINATIONS = 4096


Parts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """parts: modules with a degree each; degree: of all else."""

    degree: int
    parts: Parts

    def __str__(self) -> str:
        return str(PartDegrees(self.parts))


def part_candidates(
    graph: OpGraph, cluster: Cluster, seconds: Mapping[int, Mapping[str, float]], degree: int
) -> list[Candidate]:
    """Degrees by part to try, the most promising first: those in which the fewest parts have another degree than the
    best, and of these those that ask for the fewest seconds of devices.

    graph: of the whole model. cluster: of single devices. seconds: by degree, of the calls of every module, on one
    group. degree: the best of all that are the same everywhere.
    """
    degrees, parts = sorted(seconds), _branches(graph)
    if len(parts) > 1:
        choices = product(degrees, repeat=len(parts)) if len(degrees) ** len(parts) <= MOST_COMBINATIONS else ()
        candidates = [Candidate(degree, tuple(zip(parts, some, strict=True))) for some in choices]
    else:
        candidates = [one for a, b in product(degrees, repeat=2) for one in _halves(graph, cluster, a, b)]
    candidates = [one for one in candidates if len({one.degree, *(size for _, size in one.parts)}) > 1]

    def rank(one: Candidate) -> tuple[int, float]:
        others = (one.degree != degree) + len({size for _, size in one.parts if size != degree})
        moved = sum(size != degree for _, size in one.parts) if len(parts) > 1 else 0
        return others + moved, _device_seconds(one, seconds)

    return sorted(candidates, key=rank)


def may_differ(graph: OpGraph, cluster: Cluster) -> bool:
    """Whether a model has parts, or a cluster devices, for which groups of different sizes are tried."""
    kinds = {cluster.devices[at].kind for at in cluster.accelerators}
    return len(kinds) == 2 or (len(kinds) == 1 and len(_branches(graph)) > 1)


def _flops(graph: OpGraph) -> dict[str, float]:
    flops: dict[str, float] = defaultdict(float)
    for operator in graph.operators:
        if operator.phase is Phase.FORWARD and operator.module_path:
            flops[operator.module_path] += operator.flops.at(graph.samples)
    return flops


def _children(flops: Mapping[str, float], parent: str) -> dict[str, float]:
    children: dict[str, float] = defaultdict(float)
    for path, amount in flops.items():
        if parent and not path.startswith(f"{parent}."):
            continue
        name = path[len(parent) + 1 if parent else 0 :].partition(".")[0]
        children[f"{parent}.{name}" if parent else name] += amount
    return children


def _branches(graph: OpGraph) -> list[str]:
    """The modules with most of the work of which none waits for another, at the first level with several; none for
    blocks that are counted, one after the other."""
    flops = _flops(graph)
    total, parent = sum(flops.values()), ""
    while total > 0:
        children = _children(flops, parent)
        heavy = [path for path, amount in children.items() if amount >= BRANCH * total]
        if not heavy or any(path.rpartition(".")[2].isdigit() for path in children):
            return []
        beside = _beside(graph, heavy)
        if len(beside) > 1:
            return beside[:MOST_BRANCHES]
        parent = max(heavy, key=lambda path: children[path])
    return []


def _beside(graph: OpGraph, modules: Sequence[str]) -> list[str]:
    """Those of some modules that neither lead to another of them nor follow from one."""
    bit = {path: 1 << at for at, path in enumerate(modules)}
    reached = [0] * len(graph)
    ordered = 0
    for at in graph.topological_order:
        operator = graph.operators[at]
        if operator.phase is not Phase.FORWARD:
            continue
        own = sum(bit[path] for path in modules if f"{operator.module_path}.".startswith(f"{path}."))
        if own and reached[at] & ~own:
            ordered |= own | (reached[at] & ~own)
        for after in graph.successors[at]:
            reached[after] |= reached[at] | own
    return [path for path in modules if not ordered & bit[path]]


def _halves(graph: OpGraph, cluster: Cluster, first: int, last: int) -> list[Candidate]:
    """A chain of blocks, cut in the ratio of the FLOP/s of the first kind of device to those of the others, and the
    other way round: what comes up to the cut has the first degree, and what follows the last."""
    kinds = list(dict.fromkeys(cluster.devices[at].kind for at in cluster.accelerators))
    blocks = _blocks(graph)
    if len(kinds) != 2 or len(blocks) < 2:
        return []
    head, numbers = blocks[0].rpartition(".")[0], [int(path.rpartition(".")[2]) for path in blocks]
    before = [(path, first) for path in _before(graph, head)]
    speeds = [sum(d.flops_per_s for d in cluster.devices if d.kind == kind) for kind in kinds]
    cuts = {min(max(1, round(len(numbers) * speed / sum(speeds))), len(numbers) - 1) for speed in speeds}
    return [Candidate(last, (*before, (f"{head}.{numbers[0]}-{numbers[cut - 1]}", first))) for cut in sorted(cuts)]


def _before(graph: OpGraph, blocks: str) -> list[str]:
    """The modules beside the blocks that follow none of them."""
    before: dict[str, bool] = {}
    after = [False] * len(graph)
    for at in graph.topological_order:
        operator = graph.operators[at]
        if operator.phase is not Phase.FORWARD:
            continue
        inside = f"{operator.module_path}.".startswith(f"{blocks}.")
        for successor in graph.successors[at]:
            after[successor] |= after[at] or inside
        if operator.module_path and not inside:
            before[operator.module_path] = before.get(operator.module_path, True) and not after[at]
    return [path for path, ahead in before.items() if ahead]


def _blocks(graph: OpGraph) -> list[str]:
    """The most numerous modules that are counted under one parent."""
    blocks: dict[str, set[str]] = defaultdict(set)
    for path in _flops(graph):
        names = path.split(".")
        at = next((at for at, name in enumerate(names) if name.isdigit()), None)
        if at:
            blocks[".".join(names[:at])].add(".".join(names[: at + 1]))
    most = max(blocks.values(), key=lambda some: len(some), default=set())
    return sorted(most, key=lambda path: int(path.rpartition(".")[2]))


def _device_seconds(one: Candidate, seconds: Mapping[int, Mapping[str, float]]) -> float:
    of = PartDegrees(one.parts)
    sizes = {path: of.of(path, one.degree) for path in seconds[one.degree]}
    return sum(seconds[size].get(path, 0.0) * size for path, size in sizes.items())
