"""All planners, by name. To add one, write its file and add a line here."""

from __future__ import annotations

from solvers.planner import Planner
from solvers.planners.annealing import Annealing
from solvers.planners.baselines import EqualSplit, SingleDevice
from solvers.planners.brute_force import BruteForce
from solvers.planners.chain_dp import LinearDP
from solvers.planners.data_parallel import DataParallel
from solvers.planners.downset_dp import DownsetDP
from solvers.planners.expert import Expert
from solvers.planners.gpipe import GPipe
from solvers.planners.graph_pipeline import GraphPipeline
from solvers.planners.greedy_latency import GreedyLatency
from solvers.planners.heft import HEFT
from solvers.planners.interleaved import Interleaved
from solvers.planners.joint import Joint
from solvers.planners.joint_exact import JointCP
from solvers.planners.joint_program import PestoProgram
from solvers.planners.latency import Latency
from solvers.planners.latency_cp import LatencyCP
from solvers.planners.latency_dp import LatencyDP
from solvers.planners.latency_ip import LatencyIP
from solvers.planners.latency_search import LatencySearch
from solvers.planners.layer_split import LayerSplit
from solvers.planners.local_search import LocalSearch
from solvers.planners.m_etf import METF
from solvers.planners.m_sct import MSCT
from solvers.planners.m_topo import MTopo
from solvers.planners.max_load_cp import MaxLoadCP
from solvers.planners.max_load_ip import MaxLoadIP
from solvers.planners.non_contiguous import NonContiguous
from solvers.planners.partitioner import Partitioner
from solvers.planners.pipedream import PipeDream
from solvers.planners.pipedream_iter import PipeDreamIteration
from solvers.planners.pipedream_optimizer import PipeDreamOptimizer
from solvers.planners.piper import Piper
from solvers.planners.portfolio import Auto

PLANNERS: dict[str, type[Planner]] = {
    planner.name: planner
    for planner in (
        Auto,
        GraphPipeline,
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
