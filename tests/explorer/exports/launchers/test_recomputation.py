"""What runs again before its backward is said in the launcher's own words, or the file says what is missing."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.costs.regions import Recompute, with_region_choice
from explorer.exports.formats import FORMATS, export
from explorer.words import text
from solvers.evaluation.evaluate import evaluate
from solvers.formats.plan_json import PlanFile
from solvers.problem.regions import recomputing
from tests.explorer.exports.launchers.test_grammars import HALVES, in_a_shell
from tests.explorer.exports.planned import planned

STYLES = ("tp-plan", "torch-parallelize")
"""Of divided plans alone."""
LAUNCHERS = [name for name, one in FORMATS.items() if one.launches]


def regions(kind: Recompute, firsts: tuple[str, ...] = HALVES, model: str = "gpt-small") -> PlanFile:
    file = planned(model, firsts)
    return file._replace(problem=recomputing(with_region_choice(file.problem, kind, model)))


def stages(which: tuple[int, ...], firsts: tuple[str, ...] = HALVES) -> PlanFile:
    file = planned("gpt-small", firsts, recompute=True)
    changed = tuple(replace(s, recompute=i in which) for i, s in enumerate(file.plan.stages))
    return file._replace(plan=replace(file.plan, stages=changed))


def lines(file: PlanFile, to: str) -> list[str]:
    return [line for line in export(file, to).lost if "recomputation" in line]


def megatron(file: PlanFile, folder: Path) -> list[str]:
    words = in_a_shell(export(file, "megatron").data, '"${PIPELINE_ARGS[@]}"', folder)
    return words[next((i for i, word in enumerate(words) if word.startswith("--recompute")), len(words)) :]


@pytest.mark.parametrize("name", LAUNCHERS)
@pytest.mark.parametrize("kind", [Recompute.LAYERS, Recompute.OPERATORS])
def test_every_launchers_file_says_it_or_says_that_it_does_not(kind: Recompute, name: str) -> None:
    model = "gpt-small" + ",tensor-parallel=2" * (name in STYLES)
    plain = export(planned(model, HALVES), name)
    file = regions(kind, model=model)
    again = export(file, name)
    flagged = again.data.replace(b"# ", b"") != plain.data.replace(b"# ", b"")
    assert flagged or lines(file, name)
    assert (
        any("recomputation" in line for line in again.lost)
        or {
            "megatron": b"--recompute-granularity full",
            "torchtitan": b'mode = "full"',
            "deepspeed": b"activation_checkpoint_interval",
        }[name]
        in again.data
    )


def test_what_a_file_does_not_say_names_the_peaks_with_it_and_without() -> None:
    file = regions(Recompute.LAYERS)
    (line,) = lines(file, "torch-split")
    shown = evaluate(file.problem, file.plan).peak_memory_bytes
    plain = evaluate(planned("gpt-small", HALVES).problem, file.plan).peak_memory_bytes
    spans = [f"{text.nbytes(min(peaks))} to {text.nbytes(max(peaks))}" for peaks in (shown, plain)]
    assert line == (
        "recomputation of blocks.0, blocks.1, blocks.2 and 1 more, which the plan's memory counts on: switch it on in"
        f" the launcher; predicted peaks of {spans[0]} are {spans[1]} without it"
    )


def test_megatron_recomputes_layer_by_layer(tmp_path: Path) -> None:
    whole = ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"]
    assert megatron(regions(Recompute.LAYERS), tmp_path) == whole
    assert lines(regions(Recompute.LAYERS), "megatron") == []


@pytest.mark.parametrize(("first", "length"), [("blocks.2", "2"), ("blocks.1", "1")])
def test_megatron_recomputes_stages_as_runs_of_layers_that_fill_every_stage(
    first: str, length: str, tmp_path: Path
) -> None:
    file = stages((0, 1), (f"{first}.norm1/layer_norm",))
    assert megatron(file, tmp_path)[-2:] == ["--recompute-num-layers", length]
    (line,) = lines(file, "megatron")
    assert line.startswith("recomputation of what is in no layer (tokens, positions, norm and 1 more)")
    assert ("nor of more than 1 layer as one" in line) == (length == "1")


@pytest.mark.parametrize("fused", [True, False])
def test_megatron_recomputes_what_it_can_of_the_cheap_operators_and_says_what_it_keeps(
    fused: bool, tmp_path: Path
) -> None:
    """Fused attention keeps its result; inner products and softmax run again."""
    file = regions(Recompute.OPERATORS)
    if not fused:
        graph = file.problem.graph
        renamed = tuple(replace(o, op_type=o.op_type.replace("gelu", "softmax")) for o in graph.operators)
        file = file._replace(problem=replace(file.problem, graph=replace(graph, operators=renamed)))
    modules = ["layernorm"] if fused else ["core_attn", "layernorm"]
    assert megatron(file, tmp_path) == ["--recompute-granularity", "selective", "--recompute-modules", *modules]
    (line,) = lines(file, "megatron")
    assert line.startswith(f"recomputation of all that is cheap: Megatron runs {' and '.join(modules)} again and keeps")


def test_layers_of_which_only_some_run_again_are_reported() -> None:
    """BERT's last layer is read otherwise than the others, so it is none of those that repeat."""
    (line,) = lines(regions(Recompute.LAYERS, ("blocks.2.attention.query/linear",), "bert-small"), "megatron")
    assert line.startswith("recomputation of blocks.0, blocks.1 and blocks.2, which the plan's memory counts on")


def test_megatron_gets_single_stages() -> None:
    (line,) = lines(stages((1,)), "megatron")
    assert line.startswith("recomputation of stage 1, which the plan's memory counts on")


def test_torchtitan_gets_a_mode() -> None:
    for kind, expected in ((Recompute.LAYERS, {"mode": "full"}),
                       (Recompute.OPERATORS, {"mode": "selective", "selective_ac_option": "op"})):  # fmt: skip
        config = tomllib.loads(export(regions(kind), "torchtitan").data.decode())
        assert config["activation_checkpoint"] == expected
    assert "activation_checkpoint" not in tomllib.loads(
        export(planned("gpt-small", HALVES), "torchtitan").data.decode()
    )
    (line,) = lines(stages((0, 1)), "torchtitan")
    assert line.startswith("recomputation of stages 0 and 1, which the plan's memory counts on")


def test_deepspeed_gets_an_interval_and_the_layers_it_is_of() -> None:
    def constants(file: PlanFile) -> dict[str, object]:
        tree = ast.parse(export(file, "deepspeed").data)
        return {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }

    assert constants(regions(Recompute.LAYERS))["RECOMPUTE"] == (1, [2, 3, 4, 5])
    assert constants(stages((0, 1)))["RECOMPUTE"] == (4, list(range(8)))
    for file in (planned("gpt-small", HALVES), regions(Recompute.OPERATORS), stages((0,))):
        assert constants(file)["RECOMPUTE"] == (0, [])
