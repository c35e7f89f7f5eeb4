"""Piper on its own model: the published values, the definition on tiny models, and files with every way."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import pytest

from solvers.errors import InvalidProblem, UnsupportedProblem
from solvers.plan.result import StopReason
from solvers.search.monitor import Stop
from tests.oracle.piper_oracle import least_bottleneck_s, random_model
from tests.reproductions.equal_split import equal_split
from tests.reproductions.piper_model import PiperModel
from tests.reproductions.piper_ways import read_piper_ways
from tests.reproductions.plan_piper_model import options_of, plan_model
from tests.solvers.msr_instances import SHARED

FOLDER = SHARED / "workloads" / "piper"
needs_workloads = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the published workloads are not at {FOLDER}; set SHARED to the folder that has them"
)
GIB = 2.0**30


def ignore() -> None:
    return None


@cache
def bert(devices: int) -> PiperModel:
    """The settings of Piper's own experiments: binary gigabytes."""
    model = read_piper_ways((FOLDER / "bert32a100.json").read_text(), "bert32a100")
    return replace(
        model, devices=devices, memory_bytes=8 * GIB, bandwidth_bytes_per_s=25 * GIB, micro_batches=1920
    )  # fmt: skip


def checked(model: PiperModel, search) -> None:
    """Whether a search's chain is one, and takes the time and fits the memory it says, by the model."""
    pairs, after = options_of(model), 0
    assert sorted(v for stage in search.stages for v in stage.nodes) == list(range(len(model)))
    place = {v: n for n, stage in enumerate(search.stages) for v in stage.nodes}
    assert all(place[u] <= place[v] for u, v in model.edges)
    for stage in reversed(search.stages):
        t, d = pairs[stage.option]
        after += d
        assert stage.flights == -(-after // d)
        assert model.stage_s(stage.nodes, t, d, stage.recomputed) == pytest.approx(stage.seconds, rel=1e-9)
        assert model.stage_bytes(stage.nodes, t, stage.flights, stage.recomputed) <= model.memory_bytes * (1 + 1e-9)
    assert sum(model.degrees[pairs[s.option][0]] * pairs[s.option][1] for s in search.stages) <= model.devices
    assert after <= model.most_degrees
    assert max(stage.seconds for stage in search.stages) == search.bottleneck_s


@needs_workloads
@pytest.mark.parametrize(
    ("devices", "bottleneck_s", "split_s"),
    [(8, 0.165856, 0.230978), (64, 0.0202006, 0.0257245), (512, 0.00256113, 0.00330132)],
)
def test_the_published_programs_values_are_reproduced(devices: int, bottleneck_s: float, split_s: float) -> None:
    search = plan_model(bert(devices), ignore)
    checked(bert(devices), search)
    assert search.bottleneck_s == pytest.approx(bottleneck_s, rel=3e-6)
    assert equal_split(bert(devices), "ParallelTransformerLayer").bottleneck_s == pytest.approx(split_s, rel=3e-6)


@needs_workloads
def test_without_recomputation_bert_takes_longer_on_the_same_devices() -> None:
    with_it, without = plan_model(bert(8), ignore), plan_model(bert(8), ignore, recompute=False)
    checked(bert(8), without)
    assert any(stage.recomputed for stage in with_it.stages)
    assert not any(stage.recomputed for stage in without.stages)
    assert without.bottleneck_s > with_it.bottleneck_s


def test_it_finds_the_optimum_of_its_definition() -> None:
    fits = several = again = 0
    for seed in range(150):
        model = random_model(seed)
        optimum_s = least_bottleneck_s(model)
        search = plan_model(model, ignore)
        assert search.bottleneck_s == pytest.approx(optimum_s, rel=1e-8), seed
        if search.stages:
            checked(model, search)
        fits += bool(search.stages)
        several += len(search.stages) > 1
        again += any(stage.recomputed for stage in search.stages)
    assert (fits > 80, several > 30, again > 10) == (True, True, True)


def test_an_equal_split_is_never_better() -> None:
    for seed in range(60):
        model = random_model(seed)
        split, search = equal_split(model), plan_model(model, ignore)
        if not split.recomputed:  # a layer alone may recompute where it does not help, but is not made to
            assert split.bottleneck_s >= search.bottleneck_s * (1 - 1e-8)


def test_it_stops_when_cancelled() -> None:
    requests = []

    def check() -> None:
        requests.append(1)
        if len(requests) > 5:
            raise Stop(StopReason.CANCELLED)

    with pytest.raises(Stop):
        plan_model(random_model(1), check)
    assert len(requests) == 6


def test_it_gives_up_above_its_limit_of_downsets() -> None:
    with pytest.raises(UnsupportedProblem, match="more than 3 downsets"):
        plan_model(random_model(0), ignore, limit=3)


def file(**changed) -> dict:
    """Two layers listed against their order: 8 reads from 9. The second way of 8 recomputes."""
    way = {"timePerSample": 2.0, "parameterSize": 4.0, "memoryUsageA": 5.0, "memoryUsageB": 8.0}
    first = {"id": "vanilla", "syncTimeFw": {}, "syncTimeBw": {"8": 7.0}} | way
    second = {"id": "vanilla", "syncTimeFw": {"9": 3.0}, "syncTimeBw": {}} | way
    recomputed = second | {"id": "activation recomp", "timePerSample": 3.0, "memoryUsageA": 1.0}
    return {
        "maxDevices": 2, "maxMemoryPerDevice": 100.0, "bandwidth": 1.0, "mbsInBatch": 4,
        "nodes": [{"id": 8, "TMPCs": {"1": [second, recomputed | changed]}}, {"id": 9, "TMPCs": {"1": [first]}}],
        "edges": [{"sourceId": 9, "destId": 8, "communicationCost": 6.0}],
    }  # fmt: skip


def test_every_way_of_a_file_is_read() -> None:
    model = read_piper_ways(file(), "file")
    assert (model.edges, model.degrees, model.micro_batches) == (((0, 1),), (1,), 4)
    assert model.time_s.tolist() == [[[2.0, math.inf], [2.0, 3.0]]]
    assert model.per_flight_bytes[0, 1].tolist() == [5.0, 1.0]
    # Layer 9 sends 6 + 7 bytes there and back; on two replicas half of that, and its parameters' 4 (2-1)/2 4/4.
    assert model.stage_s({0}, 0, 1) == 2 + 2 * 13
    assert model.stage_s({0}, 0, 2) == (2 + 2 * 13) / 2 + 2
    assert model.stage_s({1}, 0, 1, {1}) == 3 + 2 * 9
    assert model.stage_bytes({0, 1}, 0, 3, {1}) == (15 + 8) + (3 + 8)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parameterSize": 5.0}, r"nodes\[0\].TMPCs: expected the same parameterSize"),
        ({"syncTimeFw": {"7": 1.0}}, r"syncTimeFw\['7'\]: expected the id of a neighbour"),
        ({"timePerSample": -1}, r"\['1'\]\[1\].timePerSample: expected a finite number"),
    ],
)
def test_a_refusal_names_the_place(changed: dict, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        read_piper_ways(json.dumps(file(**changed)), "file")
