"""All planners, by name. To add one, write its file and add a line here."""

from __future__ import annotations

from solvers.contiguous.planners.chain_dp import LinearDP
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.joint.planners.baechi import METF, MSCT, MTopo
from solvers.joint.planners.heft import HEFT
from solvers.joint.planners.joint import Joint
from solvers.joint.planners.joint_exact import JointCP
from solvers.joint.planners.joint_program import PestoProgram
from solvers.joint.planners.layer_split import LayerSplit
from solvers.latency.planners.greedy_latency import GreedyLatency
from solvers.latency.planners.latency import Latency
from solvers.latency.planners.latency_cp import LatencyCP
from solvers.latency.planners.latency_dp import LatencyDP
from solvers.latency.planners.latency_ip import LatencyIP
from solvers.latency.planners.latency_search import LatencySearch
from solvers.noncontiguous.planners.annealing import Annealing
from solvers.noncontiguous.planners.local_search import LocalSearch
from solvers.noncontiguous.planners.max_load_cp import MaxLoadCP
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.noncontiguous.planners.non_contiguous import NonContiguous
from solvers.noncontiguous.planners.partitioner import Partitioner
from solvers.pipelines.planners.data_parallel import DataParallel
from solvers.pipelines.planners.gpipe import GPipe
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.planners.interleaved import Interleaved
from solvers.pipelines.planners.pipedream import PipeDream
from solvers.pipelines.planners.pipedream_iter import PipeDreamIteration
from solvers.pipelines.planners.pipedream_optimizer import PipeDreamOptimizer
from solvers.pipelines.planners.piper import Piper
from solvers.pipelines.planners.repeated_blocks import RepeatedBlocks
from solvers.pipelines.planners.selective_recompute import SelectiveRecompute
from solvers.pipelines.planners.tied_ends import TiedEnds
from solvers.planners.baselines import EqualSplit, SingleDevice
from solvers.planners.brute_force import BruteForce
from solvers.planners.expert import Expert
from solvers.planners.portfolio import Auto
from solvers.search.planner import Planner

PLANNERS: dict[str, type[Planner]] = {
    planner.name: planner
    for planner in (
        Auto,
        GraphPipeline,
        TiedEnds,
        RepeatedBlocks,
        SelectiveRecompute,
        DownsetDP,
        LinearDP,
        Interleaved,
        MaxLoadIP,
        MaxLoadCP,
        NonContiguous,
        LocalSearch,
        Annealing,
        Latency,
        LatencyDP,
        LatencySearch,
        LatencyCP,
        LatencyIP,
        GreedyLatency,
        Joint,
        JointCP,
        PestoProgram,
        MTopo,
        METF,
        MSCT,
        HEFT,
        LayerSplit,
        PipeDream,
        PipeDreamIteration,
        PipeDreamOptimizer,
        GPipe,
        DataParallel,
        Piper,
        Partitioner,
        EqualSplit,
        Expert,
        SingleDevice,
        BruteForce,
    )
}
