"""What a divided graph states is what its placements ask for, and where it is not, that is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.tracing.build import build
from explorer.tracing.captured import NO_EXCHANGE, Captured, Exchange
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.local import member_of
from explorer.tracing.sharding.rules import analyse
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.op_graph_json import graph_hash, graph_json, read_op_graph
from solvers.problem.collectives import COLLECTIVE, PARTIAL, UNSUMMED, WHOLE, shard
from solvers.problem.graph import Amount, OpGraph
from solvers.verify.division import division
from tests.explorer.cli.command import Command
from tests.explorer.tracing.sharding.captures import demo
from tests.explorer.tracing.sharding.members import any_labels
from tests.explorer.tracing.sharding.test_rules import MODELS

Parts = tuple[Captured, Captured]


def parts_of(name: str, seed: int, degree: int = 2) -> Parts:
    """A demo, divided by chance: what one member runs, at both batches."""
    small, large = demo(name)
    choices = Choices(analyse(small), large, degree, whole_weights=seed % 2 == 0)
    labels = any_labels(choices, random.Random(seed))
    return member_of(choices, labels, small), member_of(choices, labels, large)


def graph_of(parts: Parts, degree: int = 2) -> OpGraph:
    return build(*parts, reference="m", training=True, tensor_parallel=degree).graph


@pytest.mark.first(5)
@pytest.mark.parametrize("name", MODELS)
def test_whatever_labels_a_model_has_its_graph_keeps_the_rules(name: str) -> None:
    for seed in range(3):
        assert division(graph_of(parts_of(name, seed))) == ()


def test_a_division_comes_back_from_its_file() -> None:
    graph = graph_of(parts_of("gpt-small", 0))
    again = read_op_graph(Field(json.loads(json.dumps(graph_json(graph))), "graph"))
    assert again.division == graph.division
    assert graph_hash(graph) == graph_hash(replace(graph, division=None))


def test_a_placement_that_is_shown_is_one_that_a_call_makes() -> None:
    graph = graph_of(parts_of("gpt-small", 0))
    at = next(at for at, one in enumerate(graph.operators) if one.placement.startswith("S("))
    operators = list(graph.operators)
    operators[at] = replace(operators[at], placement="P")
    assert any("is said to make P" in line for line in division(replace(graph, operators=tuple(operators))))


def exchanges(part: Captured) -> list[int]:
    return [at for at, node in enumerate(part.nodes) if node.exchange != NO_EXCHANGE]


def changed(parts: Parts, at: int, exchange: Callable[[Exchange], Exchange]) -> OpGraph:
    """With another exchange of a call, at both batches."""
    return graph_of(
        tuple(  # type: ignore[arg-type]
            replace(part, nodes=tuple(replace(n, exchange=exchange(n.exchange)) if i == at else n
                                      for i, n in enumerate(part.nodes)))
            for part in parts
        )
    )  # fmt: skip


def forgotten(parts: Parts) -> Iterator[OpGraph]:
    """Exchanges that nobody makes: who reads what comes out of one reads what goes in."""
    for at, node in enumerate(parts[0].nodes):
        if node.target.startswith(COLLECTIVE) and node.outputs[0] not in parts[0].outputs:
            into, out = node.tensors[0][1], node.outputs[0]
            made = []
            for part in parts:
                nodes = [
                    replace(one, tensors=tuple((a, into if v == out else v) for a, v in one.tensors))
                    for one in part.nodes
                ]
                del nodes[at]
                saved = tuple(
                    replace(each, node=each.node - (each.node > at), value=into if each.value == out else each.value)
                    for each in part.saved
                    if each.node != at
                )
                saved_whole = tuple(
                    replace(
                        each,
                        node=each.node - (each.node > at),
                        values=tuple(into if name == out else name for name in each.values),
                    )
                    for each in part.saved_whole
                )
                values = {
                    name: replace(value, base=into) if value.base == out else value
                    for name, value in part.values.items()
                    if name != out
                }
                made.append(replace(part, nodes=tuple(nodes), saved=saved, saved_whole=saved_whole, values=values))
            yield graph_of((made[0], made[1]))


def halved(parts: Parts) -> Iterator[OpGraph]:
    for at in exchanges(parts[0]):
        for name in ("forward_bytes", "backward_bytes", "update_bytes", "forward_steps"):
            if getattr(parts[0].nodes[at].exchange, name):
                yield changed(parts, at, lambda one, name=name: replace(one, **{name: getattr(one, name) // 2}))


def placed_anew(parts: Parts, chance: random.Random) -> Iterator[OpGraph]:
    """A tensor that is placed otherwise, with the sizes that it had. Whether a whole tensor's gradient is whole or a
    part is no fault where no reader gives it any."""
    graph = graph_of(parts)
    stated = graph.division
    assert stated is not None
    for at, tensor in enumerate(stated.tensors):
        dims = [shard(dim) for dim, length in enumerate(tensor.shape) if length > 1 and length % 2 == 0]
        readers = [call for call in stated.calls if at in call.inputs]
        flows = any(stated.tensors[made].differentiable for call in readers for made in call.outputs)
        alike = {WHOLE, UNSUMMED} if not flows and tensor.placement in (WHOLE, UNSUMMED) else {tensor.placement}
        other = [one for one in (WHOLE, UNSUMMED, PARTIAL, *dims) if one not in alike]
        if tensor.differentiable:
            new = replace(tensor, placement=chance.choice(other))
            yield replace(
                graph, division=replace(stated, tensors=(*stated.tensors[:at], new, *stated.tensors[at + 1 :]))
            )


def held_whole(parts: Parts) -> Iterator[OpGraph]:
    """Parameters that are divided, and counted whole; and the other way round."""
    for name in parts[0].parameters:
        made = []
        for part in parts:
            value, whole = part.values[name], part.whole[name]
            shape = whole.shape if value.shape != whole.shape else (value.shape[0] // 2, *value.shape[1:])
            made.append(replace(part, values={**part.values, name: replace(value, shape=shape)}))
        yield graph_of((made[0], made[1]))


def saved_otherwise(parts: Parts) -> Iterator[OpGraph]:
    """What is saved for the backward, twice as much (so that a half is counted whole), half of it, nothing, or as much
    at the larger batch as at the smaller one."""
    for at, entry in enumerate(parts[0].saved):
        if not entry.nbytes:
            continue
        for factor in (2.0, 0.5, 0.0):
            sizes = [int(part.saved[at].nbytes * factor) for part in parts]
            yield with_saved(parts, at, sizes)
        if parts[1].saved[at].nbytes != entry.nbytes:
            yield with_saved(parts, at, [entry.nbytes, entry.nbytes])


def with_saved(parts: Parts, at: int, sizes: Sequence[int]) -> OpGraph:
    small, large = (
        replace(part, saved=(*part.saved[:at], replace(part.saved[at], nbytes=nbytes), *part.saved[at + 1 :]))
        for part, nbytes in zip(parts, sizes, strict=True)
    )
    return graph_of((small, large))


def faults(parts: Parts, chance: random.Random) -> dict[str, Iterator[OpGraph]]:
    return {
        "exchanges left out": forgotten(parts),
        "exchanges halved": halved(parts),
        "tensors placed otherwise": placed_anew(parts, chance),
        "parameters whole or halved": held_whole(parts),
        "saved otherwise": saved_otherwise(parts),
    }


FAULTY = [("gpt-small", 0), ("gpt-small", 1)]
SLOW = [(name, seed) for name in ("llama-small", "moe-small", "bert-small", "multimodal-small", "dlrm-small")
        for seed in (0, 1)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [*FAULTY, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)])
def test_planted_faults_are_refused(name: str, seed: int) -> None:
    for kind, graphs in faults(parts_of(name, seed), random.Random(seed)).items():
        refused = [bool(division(graph)) for graph in graphs]
        print(f"{name} {seed} {kind}: {sum(refused)} of {len(refused)}")
        assert refused, kind
        assert sum(refused) >= 0.99 * len(refused), kind


def test_a_product_that_saves_nothing_is_detected_though_nothing_is_stated() -> None:
    graph = graph_of(parts_of("gpt-small", 0))
    stated = graph.division
    assert stated is not None
    assert stated.saved is not None
    saved = tuple(one for one in stated.saved if stated.calls[one.call].target != "aten.linear")
    findings = division(replace(graph, division=replace(stated, saved=saved)))
    assert any("of which the gradient of" in line for line in findings)


def test_a_file_that_does_not_state_what_is_saved_is_read_and_is_not_held_to_it() -> None:
    graph = graph_of(parts_of("gpt-small", 0))
    file = json.loads(json.dumps(graph_json(graph)))
    del file["division"]["saved"]
    for tensor in file["division"]["tensors"]:
        tensor.pop("base", None)
    older = read_op_graph(Field(file, "graph"))
    assert older.division is not None
    assert older.division.saved is None
    assert division(older) == ()
    operators = tuple(replace(one, saved_bytes=Amount(1.0)) for one in older.operators)
    assert division(replace(older, operators=operators)) == ()
    assert division(replace(graph, operators=operators)) != ()


@pytest.mark.slow
def test_spoiled_files_are_refused_or_noticed() -> None:
    chance = random.Random(3)
    text = json.dumps(graph_json(graph_of(parts_of("llama-small", 0))))
    for _ in range(100):
        file = json.loads(text)
        stated = file["division"]
        row = chance.choice(stated[chance.choice(["tensors", "calls", "saved"])])
        key = chance.choice(list(row))
        row[key] = chance.choice([[], [0], [1, 2], "", "P", "S(0,0)", "S(7)", 0, -1, 10**9, None, {}, {"dim": []}])
        try:
            graph = read_op_graph(Field(file, "graph"))
        except InvalidProblem:
            continue
        assert all(isinstance(line, str) for line in division(graph))


def test_check_refuses_a_plan_whose_division_lies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "plan.json"
    command = Command(capsys)
    question = ("gpt-small", "--devices", 2, "--planner", "equal", "--tensor-parallel", 2, "--no-library")
    assert command("plan", *question, "-o", place).status == 0
    assert command("check", place).status == 0
    file = json.loads(place.read_text())
    stated = file["graph"]["division"]["tensors"]
    tensor = next(one for one in stated if one["placement"].startswith("S(") and "parameter" not in one)
    tensor["placement"] = "R"
    place.write_text(json.dumps(file))
    refused = command("check", place)
    assert refused.status != 0
    assert "division" in refused.out + refused.err
    tensor["placement"] = "S(99)"
    place.write_text(json.dumps(file))
    assert "divides nothing" in (command("check", place).out + command("check", place).err)
