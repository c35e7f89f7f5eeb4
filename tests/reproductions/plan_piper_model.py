"""Plans of Piper's own model, every pair of degrees of which is an option of its dynamic program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.coarsening.traffic import Rows, Traffic
from solvers.contiguous.downsets import Check, enumerate_downsets, order_of
from solvers.contiguous.messages_kernel import messages_of
from solvers.errors import UnsupportedProblem
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.piper.costed import NONE_CHEAPEST, ROUNDING, Costed, Ids
from solvers.pipelines.piper.dp import LIMIT, NOTHING, PiperSearch, least_bottleneck, too_many
from solvers.pipelines.piper.memory_kernel import StageMemory
from solvers.pipelines.piper.stage_kernel import StageCosts
from tests.reproductions.piper_model import PLAIN, RECOMPUTED, PiperModel


def plan_model(model: PiperModel, check: Check, *, recompute: bool = True, limit: int = LIMIT) -> PiperSearch:
    """The chain of stages with the least bottleneck, in seconds per sample.

    An option of a stage is a position in `options_of`. recompute: whether layers may be recomputed. Calls
    ``check`` often. Raises UnsupportedProblem if there are more than ``limit`` downsets.
    """
    if not options_of(model):
        return NOTHING
    downsets = enumerate_downsets(order_of([(v, u) for u, v in model.edges], len(model)), limit, check)
    if downsets is None:
        raise UnsupportedProblem(too_many(limit))
    search = least_bottleneck(downsets, costed(model, recompute=recompute), check)
    pairs, fast = options_of(model), faster_ways(model, recompute=recompute)
    stages = []
    for stage in search.stages:
        by_default = {v for v in stage.nodes if fast[pairs[stage.option][0], v] == RECOMPUTED}
        stages.append(replace(stage, recomputed=tuple(sorted(by_default ^ set(stage.recomputed)))))
    return replace(search, stages=tuple(stages))


def options_of(model: PiperModel) -> list[tuple[int, int]]:
    """(position of the tensor-parallel degree, data-parallel degree), by devices, then data-parallel degree."""
    pairs = [(t, d) for t, degree in enumerate(model.degrees) for d in model.data_degrees(degree)]
    return sorted(pairs, key=lambda pair: (model.degrees[pair[0]] * pair[1], pair[1]))


def faster_ways(model: PiperModel, *, recompute: bool = True) -> Ints:
    """The way that is taken where memory allows: the faster one, [degrees, layers]."""
    return np.where(
        recompute & (model.time_s[..., RECOMPUTED] < model.time_s[..., PLAIN]), RECOMPUTED, PLAIN
    )  # fmt: skip


def costed(model: PiperModel, *, recompute: bool = True) -> Costed:
    """The costs of a model's stages; "again" is the slower way. recompute: whether layers may be recomputed."""
    pairs = options_of(model)
    degree = np.array([t for t, _ in pairs])
    d = np.array([d for _, d in pairs], np.int64)
    per_s = model.bandwidth_bytes_per_s
    able = model.able[degree]
    fast = faster_ways(model, recompute=recompute)[..., None]
    slow = np.where(fast == PLAIN, RECOMPUTED, PLAIN)

    def of(values: Floats, way: Ints) -> Floats:
        return np.ascontiguousarray(np.take_along_axis(values, way, axis=-1)[..., 0])

    with np.errstate(invalid="ignore"):
        more_s = of(model.time_s, slow) - of(model.time_s, fast)
    slow = np.where((np.isfinite(more_s) & recompute)[..., None], slow, fast)
    more_s = np.where(slow[..., 0] == fast[..., 0], np.inf, more_s)
    synchronised = np.array([model.synchronised_bytes(model.param_bytes[t], r) for t, r in pairs])
    compute_s = of(model.time_s, fast)[degree] / d[:, None] + synchronised / per_s
    ends = Rows.of([(u,) for u, _ in model.edges]), Rows.of([(v,) for _, v in model.edges])
    traffic = Traffic(*ends, np.zeros(len(model.edges), bool), len(model))
    costs = StageCosts(
        devices=np.array([model.degrees[t] for t in degree], np.int64) * d,
        degrees=d,
        flights=-(-model.most_degrees // d),
        compute_s=np.where(able, compute_s, np.inf),
        again_s=np.ascontiguousarray(more_s[degree] / d[:, None]),
        fixed_s=np.zeros(len(pairs)),
        has_params=np.zeros(len(model), bool),
        send_s=2 * (model.edge_bytes + model.scatter_bytes)[degree] / d[:, None] / per_s,
        receive_s=2 * (model.edge_bytes + model.gather_bytes)[degree] / d[:, None] / per_s,
        messages=messages_of(traffic),
        beside=False,
    )
    memory = StageMemory(
        group=degree.astype(np.int64),
        kept_bytes=of(model.per_flight_bytes, fast),
        held_bytes=of(model.fixed_bytes, fast),
        kept_again_bytes=of(model.per_flight_bytes, slow),
        held_again_bytes=of(model.fixed_bytes, slow),
        workspace_bytes=np.zeros((len(model.degrees), len(model))),
        received_bytes=np.zeros((len(model.degrees), len(model.edges))),
        by_layer=True,
        cheapest=NONE_CHEAPEST,
        cap_bytes=model.memory_bytes * (1 + ROUNDING),
    )
    memory = memory._replace(cheapest=cheapest_first(costs, memory))
    return Costed(traffic, costs, memory, model.devices, model.most_degrees)


def cheapest_first(costs: StageCosts, memory: StageMemory) -> Ids:
    """[groups, flights, nodes]: see `StageMemory`. In a group the order is that of any of its options."""
    table = np.full((len(memory.kept_bytes), int(costs.flights.max()), len(costs.has_params)), -1, np.int32)
    flights = np.arange(1, table.shape[1] + 1)[:, None]
    for g, option in zip(*np.unique(memory.group, return_index=True), strict=True):
        saved = memory.held_bytes[g] - memory.held_again_bytes[g]
        saved = saved + flights * (memory.kept_bytes[g] - memory.kept_again_bytes[g])
        more_s = costs.again_s[option]
        worth = np.where((saved > 0) & np.isfinite(more_s), more_s, np.inf) / np.where(saved > 0, saved, 1.0)
        order = np.argsort(worth, axis=1, kind="stable")
        table[g] = np.where(np.isfinite(np.take_along_axis(worth, order, axis=1)), order, -1)
    return table
