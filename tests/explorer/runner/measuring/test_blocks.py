"""A model that has no room is measured in blocks of operators, of which one has its parameters there."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from explorer.costs.profile import EngineTimes
from explorer.question.loading import load
from explorer.runner import block_times
from explorer.runner import calibrate as calibrating
from explorer.runner.block_times import AT_ONCE, PER_PARAMETER, blocks_of, bytes_of, room_for
from explorer.runner.bundles.request import RunRequest
from explorer.runner.calibrate import calibrate
from explorer.runner.measuring.calibration import calibration_plan
from explorer.runner.measuring.place import Place
from explorer.runner.model.weights import Held, hold
from solvers.errors import InvalidProblem, RunError
from solvers.formats.plan_json import read_plan
from solvers.problem.engine import EngineCosts
from solvers.problem.graph import Operator, OpGraph, Phase

CPU = torch.device("cpu")


def chain(count: int, together: tuple[tuple[int, int], ...] = ()) -> Any:
    """A program whose operator i makes what i + 1 reads. together: (reader, writer) in one segment."""
    edges = [SimpleNamespace(producer=i, consumers=(i + 1,)) for i in range(count - 1)]
    return SimpleNamespace(
        edges=edges, early_reads=[(*pair, "x") for pair in together], folded=SimpleNamespace(groups=range(count)),
        reference="chain",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "room", "blocks"),
    [
        ([1, 1, 1, 1], 4, [(0, 4)]),
        ([1, 1, 1, 1], 2, [(0, 2), (2, 4)]),
        ([1, 1, 1, 1], 3, [(0, 3), (3, 4)]),
        ([1, 9, 1, 1], 3, [(0, 1), (1, 2), (2, 4)]),
        ([9, 9], 1, [(0, 1), (1, 2)]),
    ],
)
def test_a_block_holds_as_much_as_there_is_room_for(sizes: list[float], room: float, blocks: list[Any]) -> None:
    ranges = blocks_of(chain(len(sizes)), sizes, room)
    assert [(block.start, block.stop) for block in ranges] == blocks


def test_what_changes_a_tensor_that_was_read_stays_with_the_reader() -> None:
    assert blocks_of(chain(4, ((1, 2),)), [1, 1, 1, 1], 2) == (range(1), range(1, 3), range(3, 4))


def test_operators_out_of_order_cannot_be_parted() -> None:
    program = chain(3)
    program.edges.append(SimpleNamespace(producer=2, consumers=(0,)))
    assert blocks_of(program, [1, 1, 1], 3) == (range(3),)
    with pytest.raises(RunError, match="cannot be measured in blocks"):
        blocks_of(program, [1, 1, 1], 1)


def test_so_many_blocks_are_of_equal_size() -> None:
    assert room_for([1, 2, 3], 2, 100.0) == 3
    assert room_for([1, 2, 3], None, 100.0) == 100.0
    assert len(blocks_of(chain(12), [1.0] * 12, room_for([1.0] * 12, 4, 0.0))) == 4


def test_a_tied_parameter_counts_once_and_saved_tensors_at_once() -> None:
    operator = SimpleNamespace(saved_bytes=SimpleNamespace(at=lambda samples: 10.0 * samples))
    values = {"p": SimpleNamespace(nbytes=100.0)}
    program: Any = SimpleNamespace(
        captured=SimpleNamespace(parameters={"p": "table = head"}, values=values), readers={"table": (0, 1)},
        folded=SimpleNamespace(groups=(0, 1)),
    )  # fmt: skip
    graph: Any = SimpleNamespace(operators=[operator] * 3, trains=True)
    assert bytes_of(program, graph, 2) == [PER_PARAMETER * 100.0 + AT_ONCE * 20.0, AT_ONCE * 20.0]
    graph.trains = False
    assert bytes_of(program, graph, 2) == [100.0, 0.0]


def test_a_number_of_blocks_is_a_number() -> None:
    with pytest.raises(InvalidProblem, match="blocks: expected an integer from 1"):
        RunRequest(blocks=0)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_only_one_block_has_its_parameters_there(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load("rnnlm-small").graph
    file = read_plan(calibration_plan(graph, "rnnlm-small", 1), "plan.json")
    blocks: list[set[str]] = []
    last: list[weakref.ref[torch.nn.Parameter]] = []

    def watched(reference: str, names: Any, **given: Any) -> Held:
        assert [one() for one in last if one() is not None] == []
        held = hold(reference, names, **given)
        blocks.append(set(names))
        last[:] = [weakref.ref(parameter) for parameter in held.parameters.values()]
        return held

    monkeypatch.setattr(block_times, "hold", watched)
    monkeypatch.setattr(calibrating, "engine_times", lambda *_, **__: None)
    monkeypatch.setattr(calibrating, "with_adding", lambda engine, *_: engine)
    request = RunRequest(samples=(1, 2), budget_s=0.1, blocks=3)
    outcome = calibrate(file, request, Place(0, 1, CPU, False))
    gc.collect()
    every = set().union(*blocks)
    assert len(blocks) >= 3
    assert all(names and names < every for names in blocks)
    profile = outcome.profile
    assert profile is not None
    assert [times.name for times in profile.operators] == [
        o.name for o in graph.operators if o.phase is not Phase.UPDATE
    ]
    assert all(seconds > 0 for times in profile.operators for seconds in times.seconds)
    assert set(profile.updates["adam"]) == {o.name for o in graph.operators if o.phase is Phase.UPDATE}
    assert profile.samples == (1, 2)
    assert all(whole.forward_s > 0 and whole.backward_s > 0 for whole in profile.wholes)
    assert any(f"measured in {len(blocks)} blocks" in note for note in profile.notes)


def test_what_adding_to_gradients_takes_is_the_median_by_the_byte() -> None:
    """Of 1 KB of parameters: 2 ns a byte; noise that makes it negative is nothing."""
    graph = OpGraph((Operator("a", param_bytes=1000.0),), ())
    engine = EngineTimes(EngineCosts(0.0, 1.0, 2.0), 0.0, 1, "CPU time")
    shown = [calibrating.with_adding(engine, graph, added_s).costs for added_s in ([9e-6, 2e-6, 0.0], [-1e-6])]
    assert [costs.added_byte_s for costs in shown] == pytest.approx([2e-9, 0.0])
    assert shown[0].backward_s == 2.0
    assert calibrating.with_adding(engine, OpGraph((Operator("a"),), ()), [1.0]).costs.added_byte_s == 0.0
