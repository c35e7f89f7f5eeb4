"""Every format of the list can be written, and reads back as what it is."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from explorer.exports.formats import FORMATS, export, export_bytes
from explorer.exports.tables import PLACEMENT, SCHEDULE, table_text
from solvers.errors import InvalidProblem
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import PlanFile, read_plan
from solvers.problem.graph import OpGraph
from tests.explorer.exports.planned import planned
from tests.explorer.view.small import chain_problem, even_plan


def plan_file() -> PlanFile:
    problem = chain_problem()
    return PlanFile(problem, even_plan(problem), None, "chain")


def rows(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.decode())))


def test_the_list_tells_a_menu_all_it_needs() -> None:
    assert list(FORMATS) == [
        "plan", "placement-csv", "schedule-csv", "graph-svg", "gantt-svg", "stages-svg", "graph-png", "gantt-png",
        "stages-png", "chrome-trace", "report-html", "torch-split", "torch-script", "torch-actions", "torchtitan",
        "megatron", "deepspeed", "device-map", "vllm", "tp-plan", "torch-parallelize",
    ]  # fmt: skip
    for name, one in FORMATS.items():
        assert one.name == name
        assert one.what
        assert re.fullmatch(r"\.[a-z]+", one.ending)
        assert re.fullmatch(r"[a-z]+/[a-z+-]+", one.media_type)


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if not one.launches])
def test_every_format_is_written_the_same_twice(name: str) -> None:
    if name.endswith("png"):
        pytest.importorskip("PIL", reason="pip install 'placement-explorer[png]'")
    content = export_bytes(plan_file(), name, "dark")
    assert len(content) > 1000
    assert content == export_bytes(plan_file(), name, "dark")
    assert (content == export_bytes(plan_file(), name, "light")) != FORMATS[name].themed


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if one.launches])
def test_what_a_launcher_reads_says_what_it_does_not_say(name: str) -> None:
    styles = name in ("tp-plan", "torch-parallelize")
    file = planned("gpt-small" + ",tensor-parallel=2" * styles, ["blocks.2.norm1/layer_norm"])
    exported = export(file, name)
    assert len(exported.data) > 50
    assert exported == export(file, name)
    assert exported.lost
    assert exported.changed == ()
    if FORMATS[name].ending in (".py", ".sh", ".toml"):
        assert [f"# Not said here: {line}".encode() in exported.data for line in exported.lost] == [True] * len(
            exported.lost
        )


def test_nearest_is_for_launchers() -> None:
    with pytest.raises(InvalidProblem, match="nearest is for launchers; gantt-svg says the plan as it is"):
        export_bytes(plan_file(), "gantt-svg", nearest=True)


def test_the_plan_reads_back() -> None:
    file = plan_file()
    again = read_plan(export_bytes(file, "plan"))
    assert (again.plan, again.reference) == (file.plan, "chain")


def test_the_placement_has_a_row_for_every_operator() -> None:
    file = plan_file()
    table = rows(export_bytes(file, "placement-csv"))
    assert tuple(table[0]) == PLACEMENT
    operators = file.problem.graph.operators
    assert [row["operator"] for row in table] == [operator.name for operator in operators]
    assert {row["devices"] for row in table} == {"0", "1", "2", "3"}
    # 0.1 ms a sample, two samples a micro-batch
    assert float(table[0]["seconds"]) == pytest.approx(2e-4)


def test_the_schedule_has_a_row_for_every_span() -> None:
    file = plan_file()
    table = rows(export_bytes(file, "schedule-csv"))
    schedule = simulate(file.problem, file.plan)
    assert tuple(table[0]) == SCHEDULE
    assert [(row["action"], float(row["end_s"])) for row in table] == [(s.action, s.end_s) for s in schedule.spans]


def test_replicas_are_listed_and_share_the_samples() -> None:
    problem = replace(chain_problem(2, micro_batches=4), max_replicas=2)
    plan = even_plan(chain_problem(1, micro_batches=4))
    both = replace(plan, stages=(replace(plan.stages[0], devices=(0, 1)),), order=plan.order * 2)
    table = rows(export_bytes(PlanFile(problem, both, None, ""), "placement-csv"))
    assert {row["devices"] for row in table} == {"0;1"}
    assert float(table[0]["seconds"]) == pytest.approx(2e-4)


def test_the_trace_and_the_pictures_are_of_their_kind() -> None:
    assert json.loads(export_bytes(plan_file(), "chrome-trace"))["traceEvents"]
    for name in ("graph-svg", "gantt-svg", "stages-svg"):
        assert ET.fromstring(export_bytes(plan_file(), name)).tag.endswith("svg")


def test_a_name_is_never_a_formula_of_a_spreadsheet() -> None:
    assert table_text(
        ["name"], [["=1+1"], ["@x"], ["-"], [" =1+1"], ["\t-1"], ["a; +1"], ["\ufeff＝1"], [-1.5], ["a,b\n\x1b\x07"]]
    ) == ("name\r\n'=1+1\r\n'@x\r\n'-\r\n' =1+1\r\n' -1\r\na;' +1\r\n' ＝1\r\n-1.5\r\n\"a,b   \"\r\n")
    problem = chain_problem()
    operators = tuple(replace(o, name=f"=cmd|{i}") for i, o in enumerate(problem.graph.operators))
    graph = OpGraph(operators, problem.graph.tensors, 1, "chain")
    file = PlanFile(replace(problem, graph=graph), even_plan(problem), None, "")
    assert {row["operator"][0] for row in rows(export_bytes(file, "placement-csv"))} == {"'"}


def test_a_format_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="there is no format 'pdf'; there are: plan, placement-csv"):
        export_bytes(plan_file(), "pdf")
