"""Which parts are tried with degrees of their own, and how a question about them is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer.question.loading import load
from explorer.question.models.example import in_parts, of_degree, of_parts, sizes_of, undivided
from explorer.question.settings import Settings
from explorer.sweeps.divided import DividedModel
from explorer.sweeps.part_candidates import Candidate, may_differ, part_candidates
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Cluster, Device, uniform_cluster
from tests.explorer.cli.command import Command

NAMED = "multimodal-small,tensor-parallel-of=branches.vision:2+branches.text:2"


def cluster(kinds: tuple[str, ...] = ("H100-80GB",), each: int = 4) -> Cluster:
    speeds = {"H100-80GB": 3e14, "A100-40GB": 1e14}
    devices = [
        Device(f"{kind} {i}", kind, 8e10, speeds[kind], node=n) for n, kind in enumerate(kinds) for i in range(each)
    ]
    return uniform_cluster(devices, 1e11)


def test_branches_that_wait_for_none_are_parts_and_blocks_are_not() -> None:
    branches, chain = (load(f"{name}-small").graph for name in ("multimodal", "gpt"))
    assert may_differ(branches, cluster())
    assert not may_differ(chain, cluster())
    assert may_differ(chain, cluster(("H100-80GB", "A100-40GB")))


def test_the_fewest_parts_with_another_degree_come_first() -> None:
    graph = load("multimodal-small").graph
    seconds = {size: {o.module_path: 1.0 for o in graph.operators} for size in (1, 2)}
    candidates = part_candidates(graph, cluster(), seconds, 1)
    assert [sum(size == 2 for _, size in one.parts) for one in candidates[:5]] == [1, 1, 1, 1, 2]
    assert str(candidates[0]).count(":") == 4
    assert len(candidates) == 2**4 - 1


def test_a_chain_is_cut_as_two_kinds_of_devices_are_fast() -> None:
    graph = load("gpt-small").graph
    seconds = {size: {o.module_path: 1.0 for o in graph.operators} for size in (1, 2)}
    candidates = part_candidates(graph, cluster(("H100-80GB", "A100-40GB")), seconds, 2)
    assert {(one.degree, one.parts[-1]) for one in candidates} == {
        (1, ("blocks.0-2", 2)), (2, ("blocks.0-2", 1)), (1, ("blocks.0-0", 2)), (2, ("blocks.0-0", 1)),
    }  # fmt: skip
    assert all(isinstance(one, Candidate) and len({size for _, size in one.parts}) == 1 for one in candidates)
    assert any(path.startswith("tok") for path, _ in candidates[0].parts)


def test_names_say_parts_and_forget_them() -> None:
    name = "gpt,batch=8,tensor-parallel=4,sequence-parallel=0,tensor-parallel-of=blocks.0:2"
    assert sizes_of(name) == [2, 4]
    assert undivided(name) == "gpt,batch=8"
    assert of_degree(name, 1) == "gpt,batch=8"
    assert in_parts(name) == ("gpt,batch=8,tensor-parallel-of=blocks.0:2", 4, 0)
    assert of_parts(name, 1, "head:2") == "gpt,batch=8,sequence-parallel=0,tensor-parallel-of=head:2"
    with pytest.raises(InvalidProblem, match="such as vision:2"):
        sizes_of("gpt,tensor-parallel-of=blocks")


def test_a_model_by_its_name_and_part_by_part_are_the_same() -> None:
    settings = Settings(devices=4)
    by_name = DividedModel(NAMED, settings=settings).as_named()
    model = DividedModel("multimodal-small", settings=settings)
    at = model.at(1, "branches.vision:2+branches.text:2")
    assert (at.graph, at.reference) == (by_name.graph, NAMED)
    assert set(at.graph.degrees) == {1, 2}
    again = model.at(1, "branches.vision:2")
    assert again.graph.degrees.count(2) < at.graph.degrees.count(2)


def test_a_plan_of_parts_is_written_checked_and_compared_and_not_exported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan, command = tmp_path / "plan.json", Command(capsys)
    flags = ["--devices", "6", "--effort", "quick"]
    parts = ["--tensor-parallel-of", "branches.vision=2", "--tensor-parallel-of", "branches.text=2"]
    out = command("plan", "multimodal-small", *parts, *flags, "--output", str(plan), "--json")
    printed = out.json
    assert set(printed["degrees"]["tensor"]) == {1, 2}
    assert printed["degrees"]["pipeline"] >= 2
    assert command("check", str(plan)).status == 0
    refused = command("export", str(plan), "--to", "megatron", "-o", str(tmp_path / "run.sh"))
    assert refused.status == 2
    assert "groups of different sizes" in refused.err
    run = command("run", str(plan))
    assert run.status == 2
    assert "degrees by part are planned for and not run" in run.err


@pytest.mark.slow
def test_auto_says_which_parts_it_tried_and_is_no_worse_for_it() -> None:
    terms = {"devices": 4, "effort": "quick", "seed": 1, "bandwidth": 450e9}
    whole = explorer.plan("multimodal-small", **terms)
    result = explorer.plan("multimodal-small,tensor-parallel=auto", **terms)
    assert result.objective_s <= whole.objective_s * (1 + 1e-6)
    assert any("parts of different degrees were tried" in note for note in result.notes)
