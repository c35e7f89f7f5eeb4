"""All planners, by name. To add one, write its file and add a line here."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from solvers.errors import InvalidProblem
from solvers.search.planner import Planner

HOMES = {
    "auto": "solvers.planners.auto:Auto",
    "graph-pipeline": "solvers.pipelines.planners.graph_pipeline:GraphPipeline",
    "tied-ends": "solvers.pipelines.planners.tied_ends:TiedEnds",
    "repeated-blocks": "solvers.pipelines.planners.repeated_blocks:RepeatedBlocks",
    "selective-recompute": "solvers.pipelines.planners.selective_recompute:SelectiveRecompute",
    "downset-dp": "solvers.contiguous.planners.downset_dp:DownsetDP",
    "linear-dp": "solvers.contiguous.planners.chain_dp:LinearDP",
    "interleaved": "solvers.pipelines.planners.interleaved:Interleaved",
    "max-load-ip": "solvers.noncontiguous.planners.max_load_ip:MaxLoadIP",
    "max-load-cp": "solvers.noncontiguous.planners.max_load_cp:MaxLoadCP",
    "non-contiguous": "solvers.noncontiguous.planners.non_contiguous:NonContiguous",
    "local-search": "solvers.noncontiguous.planners.local_search:LocalSearch",
    "annealing": "solvers.noncontiguous.planners.annealing:Annealing",
    "latency": "solvers.latency.planners.latency:Latency",
    "latency-dp": "solvers.latency.planners.latency_dp:LatencyDP",
    "latency-search": "solvers.latency.planners.latency_search:LatencySearch",
    "latency-cp": "solvers.latency.planners.programs:LatencyCP",
    "latency-ip": "solvers.latency.planners.programs:LatencyIP",
    "greedy-latency": "solvers.latency.planners.greedy_latency:GreedyLatency",
    "joint": "solvers.joint.planners.joint:Joint",
    "joint-cp": "solvers.joint.planners.programs:JointCP",
    "pesto": "solvers.joint.planners.programs:PestoProgram",
    "m-topo": "solvers.joint.planners.list_schedulers:MTopo",
    "m-etf": "solvers.joint.planners.list_schedulers:METF",
    "m-sct": "solvers.joint.planners.list_schedulers:MSCT",
    "heft": "solvers.joint.planners.list_schedulers:HEFT",
    "layer-split": "solvers.joint.planners.layer_split:LayerSplit",
    "pipedream": "solvers.pipelines.planners.pipedream:PipeDream",
    "pipedream-iter": "solvers.pipelines.planners.pipedream_iter:PipeDreamIteration",
    "pipedream-optimizer": "solvers.pipelines.planners.pipedream_optimizer:PipeDreamOptimizer",
    "gpipe": "solvers.pipelines.planners.gpipe:GPipe",
    "data-parallel": "solvers.pipelines.planners.data_parallel:DataParallel",
    "piper": "solvers.pipelines.planners.piper:Piper",
    "partitioner": "solvers.noncontiguous.planners.partitioner:Partitioner",
    "equal": "solvers.planners.baselines:EqualSplit",
    "expert": "solvers.planners.expert:Expert",
    "single": "solvers.planners.baselines:SingleDevice",
    "brute-force": "solvers.planners.brute_force:BruteForce",
}
"""The module and class of each; the order is that of lists and forms."""


class _Registry(MutableMapping[str, type[Planner]]):
    """Name -> class, whose module is imported when it is looked up: whoever needs one planner imports no other."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._classes: dict[str, str | type[Planner]] = dict(homes)

    def __getitem__(self, name: str) -> type[Planner]:
        known = self._classes[name]
        if isinstance(known, str):
            module, _, attribute = known.partition(":")
            known = self._classes[name] = getattr(import_module(module), attribute)
        return known

    def __setitem__(self, name: str, planner: type[Planner]) -> None:
        self._classes[name] = planner

    def __delitem__(self, name: str) -> None:
        del self._classes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


PLANNERS = _Registry(HOMES)


def named(name: str) -> Planner:
    """A planner with default options. Raises InvalidProblem for an unknown name."""
    if name not in PLANNERS:
        raise InvalidProblem(f"unknown planner {name!r}; there are: {', '.join(PLANNERS)}")
    return PLANNERS[name]()
