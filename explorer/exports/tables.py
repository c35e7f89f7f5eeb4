"""A plan, its placement and its schedule as text: JSON, and tables (CSV as in RFC 4180, a header first)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from explorer.costs.times.share import WORDS
from explorer.view.timeline.exchanges import of_spans
from solvers.errors import printable
from solvers.evaluation.simulation import simulate
from solvers.formats.chrome_trace import chrome_trace
from solvers.formats.json_text import dump_json
from solvers.formats.plan_json import PlanFile, write_plan
from solvers.kernels.arrays import Floats
from solvers.problem.problem import Origin, Origins

FORMULA = re.compile(r"(^|;)(?=\s*[-=+@\uff0d\uff1d\uff0b\uff20])")
"""Where a spreadsheet takes what follows for a formula, at the begin of a text or, where ";" separates cells, inside
one: an apostrophe is put there."""
PLACEMENT = ("operator", "op_type", "phase", "module", "stages", "devices", "device_names", "seconds", "param_bytes")
SECONDS_ARE = "seconds_are"
SCHEDULE = ("action", "resource", "device", "to_device", "operator", "start_s", "end_s", "bytes")


def plan_text(file: PlanFile) -> str:
    return write_plan(file.problem, file.plan, file.result, file.reference)


def trace_text(file: PlanFile) -> str:
    """The schedule as a trace of Chrome's format."""
    problem = file.problem
    return dump_json(
        chrome_trace(
            simulate(problem, file.plan, fold=False), problem.graph, problem.cluster, of_spans(problem, file.plan)
        )
    )


def placement_csv(file: PlanFile) -> str:
    """A row for every operator, in the graph's order. stages, devices and device_names: several with ";" between.
    seconds: of one micro-batch of its (first) stage, on its first device, its share if it is replicated. Where these
    are of several origins, seconds_are says which: measured, interpolated or estimated.
    """
    problem, plan = file.problem, file.plan
    homes: list[list[int]] = [[] for _ in problem.graph.operators]
    for index, stage in enumerate(plan.stages):
        for position in stage.operators:
            homes[position].append(index)
    tables: list[tuple[Floats, Origins | None]] = []  # of every stage: times of all operators, and their origins
    for stage in plan.stages:
        kind = problem.cluster.devices[stage.devices[0]].kind
        samples = stage.micro_batch_size / len(stage.devices)
        tables.append((problem.compute.at(kind, samples), problem.compute.origin_at(kind, samples)))
    rows: list[Sequence[object]] = []
    for i, operator in enumerate(problem.graph.operators):
        on = list(dict.fromkeys(device for stage in homes[i] for device in plan.stages[stage].devices))
        names = [problem.cluster.devices[device].name for device in on]
        seconds, origins = tables[homes[i][0]] if homes[i] else (None, None)
        origin = Origin.ESTIMATED if origins is None else Origin(int(origins[i]))
        rows.append(
            (
                operator.name, operator.op_type, operator.phase.value, operator.module_path, _several(homes[i]),
                _several(on), _several(names), None if seconds is None else float(seconds[i]), operator.param_bytes,
                *((WORDS[origin] if homes[i] else None,) if problem.compute.origins else ()),
            )
        )  # fmt: skip
    return table_text((*PLACEMENT, SECONDS_ARE) if problem.compute.origins else PLACEMENT, rows)


def schedule_csv(file: PlanFile) -> str:
    """A row for every span, in the order of their starts, as in `simulate --json`."""
    operators = file.problem.graph.operators
    rows = (
        (
            span.action, span.resource, span.device, span.to_device if span.is_transfer else "",
            operators[span.operator].name if span.operator >= 0 else "", span.start_s, span.end_s, span.nbytes,
        )
        for span in simulate(file.problem, file.plan, fold=False).spans
    )  # fmt: skip
    return table_text(SCHEDULE, rows)


def table_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV; None is empty, text is printable, and what a spreadsheet would take for a formula is made plain."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        return FORMULA.sub(r"\1'", printable(value))
    return "" if value is None else value


def _several(values: Sequence[object]) -> str:
    return ";".join(map(str, values))
