"""Piper's model as its dynamic programme reads it: every pair of degrees is an option."""

from __future__ import annotations

import numpy as np

from solvers.coarsening.traffic import Rows, Traffic
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.piper.costed import Costed
from solvers.pipelines.piper.model import PLAIN, RECOMPUTED, PiperModel


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
    edges = model.edges
    traffic = Traffic(
        Rows.of([(u,) for u, _ in edges]), Rows.of([(v,) for _, v in edges]), np.zeros(len(edges), bool), len(model)
    )
    none = np.zeros((len(model.degrees), len(model)))
    return Costed(
        traffic,
        devices=np.array([model.degrees[t] for t in degree], np.int64) * d,
        degrees=d,
        flights=-(-model.most_degrees // d),
        compute_s=np.where(able, compute_s, np.inf),
        again_s=np.ascontiguousarray(more_s[degree] / d[:, None]),
        fixed_s=np.zeros(len(pairs)),
        has_params=np.zeros(len(model), bool),
        send_s=2 * (model.edge_bytes + model.scatter_bytes)[degree] / d[:, None] / per_s,
        receive_s=2 * (model.edge_bytes + model.gather_bytes)[degree] / d[:, None] / per_s,
        group=degree.astype(np.int64),
        kept_bytes=of(model.per_flight_bytes, fast),
        held_bytes=of(model.fixed_bytes, fast),
        kept_again_bytes=of(model.per_flight_bytes, slow),
        held_again_bytes=of(model.fixed_bytes, slow),
        workspace_bytes=none,
        received_bytes=np.zeros((len(model.degrees), len(edges))),
        by_layer=True,
        beside=False,
        cap_bytes=model.memory_bytes,
        most_devices=model.devices,
        most_sum=model.most_degrees,
    )
