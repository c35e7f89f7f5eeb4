"""A review as one file of HTML that needs nothing else: no script, nothing from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from explorer.reviews.lines import Line, Verdict
from explorer.reviews.review import Review
from explorer.view.figures import figures
from explorer.view.graph.palette import css_variables, device
from explorer.view.graph.skeleton import skeleton
from explorer.view.graph.stage_boxes import device_words
from explorer.view.pictures.gantt import gantt_picture
from explorer.view.pictures.graph import graph_picture
from explorer.view.pictures.stages import stages_picture
from explorer.view.pictures.svg import plain
from explorer.view.plan_types import PlanView
from explorer.view.timeline.charts import device_rows
from explorer.words import text
from solvers.formats.workload import Workload
from solvers.problem.problem import Problem

MARKS = {Verdict.PASS: "✓", Verdict.WARN: "!", Verdict.FAIL: "✕"}
SHOWN_TRANSFERS = 12
WIDEST = 2400.0
"""Pixels of a drawing of stages: beyond it the schedule's rows tell the same."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Even if a name got past the escaping, nothing in the page would run or be fetched."""
VERDICTS = {
    Verdict.PASS: "Nothing stands against this plan",
    Verdict.WARN: "The plan holds; read the warnings",
    Verdict.FAIL: "The plan cannot be used as it is",
}

STYLE = """
*{box-sizing:border-box}
body{margin:0;background:var(--background);color:var(--text);
 font:14px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1228px;margin:0 auto;padding:28px 24px 56px}
h1{font-size:22px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:15px;margin:36px 0 10px}
p{margin:0 0 8px}
.quiet{color:var(--quiet)}
.facts{display:flex;flex-wrap:wrap;gap:8px 36px;margin:18px 0 0;padding:0;list-style:none}
.facts b{display:block;font-size:19px;font-weight:600;line-height:1.3}
.facts span{color:var(--quiet);font-size:12px}
.verdict{display:inline-block;margin:14px 0 0;padding:4px 12px;border:1px solid;border-radius:6px;font-weight:600}
.pass{color:var(--pass)}.warn{color:var(--warn)}.fail{color:var(--fail)}
figure{margin:0;overflow-x:auto}
svg{display:block;max-width:none}
table{border-collapse:collapse;width:100%}
.scroll{overflow-x:auto}
th,td{text-align:left;padding:6px 14px 6px 0;border-bottom:1px solid var(--grid);vertical-align:top;white-space:nowrap}
.reason{white-space:normal;overflow-wrap:anywhere;min-width:180px}
th{font-weight:500;color:var(--quiet);font-size:12px;white-space:nowrap}
.n{text-align:right;white-space:nowrap}
.mark{width:64px;font-weight:600;white-space:nowrap}
.what{width:190px;white-space:nowrap}
.swatch{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:8px}
.bar{position:relative;width:120px;height:8px;margin-top:7px;border-radius:4px;background:var(--grid);overflow:hidden}
.bar i{position:absolute;inset:0 auto 0 0;border-radius:4px}
code{font:12px ui-monospace,'DejaVu Sans Mono',monospace;overflow-wrap:anywhere}
footer{margin-top:40px;color:var(--quiet);font-size:12px}
@media (max-width:700px){.what{width:auto;white-space:normal}.mark{width:auto}main{padding:20px 14px 40px}}
@media print{main{padding:0}h2{break-after:avoid}figure,table{break-inside:avoid}}
"""


def report_page(review: Review, problem: Problem, reference: str, notes: Sequence[str] = ()) -> str:
    """The text of the file. reference: where the model comes from; notes: of the search or the trace.

    Every name from a file is escaped.
    """
    title = reference or problem.graph.name
    view = review.view
    parts = [_head(review, problem, title), _lines(review)]
    if view is not None:
        operators = [operator.name for operator in problem.graph.operators]
        workload = Workload(problem.graph, reference, training=problem.training)
        schedule = gantt_picture(view, operators=operators).inline_svg("s")
        graph = graph_picture(skeleton(workload), view).inline_svg("g")
        parts += [
            f"<h2>Schedule</h2><figure>{schedule}</figure>",
            _devices(view),
            _stages(view),
            f"<h2>Operators by device</h2><figure>{graph}</figure>",
            _transfers(review, view),
        ]
    parts.append(_notes(notes))
    parts.append(_footer(review, problem))
    count = len(problem.cluster) if view is None else len(view["devices"])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{plain(title)}: review of a plan</title>"
        f"<style>{css_variables(count)}{STYLE}{_device_styles(count)}</style></head><body><main>"
        + "\n".join(part for part in parts if part)
        + "</main></body></html>\n"
    )


def _device_styles(count: int) -> str:
    return "".join(f".d{i}{{background:var(--{device(i)})}}" for i in range(count))


def _head(review: Review, problem: Problem, title: str) -> str:
    cluster = text.counted(device.kind for device in problem.cluster.devices)
    graph = text.plural(len(problem.graph), "operator")
    facts = []
    if review.metrics is not None and review.view is not None:
        objective = review.metrics.objective_s(problem.objective)
        within = figures(review.view).within
        facts = [
            (text.seconds(objective) + (within and f", {within}"),
             {"max-load": "max-load, a sample", "makespan": "makespan, one pass",
              "iteration": "iteration, a mini-batch"}[problem.objective.value]),
            (text.rate(review.metrics.throughput_per_s), "samples, by iterations"),
            (text.seconds(review.view["bound_s"] or None), "lower bound"),
            (text.percent(review.metrics.bubble), "bubble"),
            (text.nbytes(max(review.metrics.peak_memory_bytes)), "peak memory"),
            (text.nbytes(review.metrics.cut_bytes), "between devices"),
        ]  # fmt: skip
    listed = "".join(f"<li><b>{plain(value)}</b><span>{plain(what)}</span></li>" for value, what in facts)
    return (
        f"<h1>{plain(title)}</h1><p class=quiet>{plain(graph)} on {plain(cluster)}; mini-batch of"
        f" {problem.mini_batch:,}, {'training' if problem.training else 'inference'}</p>"
        f"<div class='verdict {review.verdict}'>{MARKS[review.verdict]} {VERDICTS[review.verdict]}</div>"
        + (f"<ul class=facts>{listed}</ul>" if facts else "")
    )


def _lines(review: Review) -> str:
    rows = "".join(
        f"<tr><td class='mark {line.verdict}'>{MARKS[line.verdict]} {line.verdict}</td>"
        f"<td class=what>{plain(line.what)}</td>"
        f"<td class=reason>{_reason(line)}</td></tr>"
        for line in review.lines
    )
    return f"<h2>Review</h2><div class=scroll><table>{rows}</table></div>"


def _reason(line: Line) -> str:
    reason = plain(line.reason)
    return f"<code>{reason}</code>" if line.what == "plan hash" else reason


def _devices(view: PlanView) -> str:
    rows = []
    for row, spec, curve in zip(device_rows(view), view["devices"], view["memory"], strict=True):
        cap = spec["memory_bytes"]
        share = min(1.0, curve["peak_bytes"] / cap) if cap else 0.0
        bar = f"<div class=bar><i class=d{row['device']} style='width:{100 * share:.1f}%'></i></div>" if cap else ""
        numbers = "".join(
            f"<td class=n>{plain(row[key])}</td>"
            for key in ("operators", "compute", "busy", "parameters", "peak", "of_cap")
        )
        rows.append(
            f"<tr><td><span class='swatch d{row['device']}'></span>{plain(row['name'])}</td>"
            f"<td>{plain(row['kind'])}</td><td>{plain(row['stages'])}</td>{numbers}<td>{bar}</td></tr>"
        )
    heads = "<th>device<th>kind<th>stages<th class=n>operators<th class=n>computes<th class=n>busy"
    heads += "<th class=n>held always<th class=n>peak memory<th class=n>of its cap<th>"
    return f"<h2>Devices</h2><div class=scroll><table><tr>{heads}</tr>{''.join(rows)}</table></div>"


def _stages(view: PlanView) -> str:
    """The DAG of stages, where there are several and it is not much wider than the page."""
    drawn = stages_picture(view) if len(view["stages"]) > 1 else None
    if drawn is None or drawn.width > WIDEST:
        return ""
    return f"<h2>Stages</h2><figure>{drawn.inline_svg('d')}</figure>"


def _transfers(review: Review, view: PlanView) -> str:
    if not review.transfers:
        return ""
    names = [one["name"] for one in view["devices"]]
    rows = "".join(
        f"<tr><td class=reason>{plain(text.short(one.producer, 120))}</td>"
        f"<td>{plain(device_words(one.source, names))}</td>"
        f"<td>{plain(device_words(one.target, names))}</td><td class=n>{text.nbytes(one.nbytes)}</td>"
        f"<td class=n>{one.times:,}</td><td class=n>{text.nbytes(one.total_bytes)}</td></tr>"
        for one in review.transfers[:SHOWN_TRANSFERS]
    )
    more = len(review.transfers) - SHOWN_TRANSFERS
    rest = f"<p class=quiet>and {more:,} smaller ones</p>" if more > 0 else ""
    heads = "<th>tensor of<th>from<th>to<th class=n>a micro-batch<th class=n>times<th class=n>a mini-batch"
    return f"<h2>Largest transfers</h2><div class=scroll><table><tr>{heads}</tr>{rows}</table></div>{rest}"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return "<h2>Notes</h2><ul>" + "".join(f"<li>{plain(note)}</li>" for note in notes) + "</ul>"


def _footer(review: Review, problem: Problem) -> str:
    costs = problem.costs_from if review.view is None else review.view["costs_from"]
    return (
        f"<footer><p>Costs: {plain(costs)}. Graph <code>{review.graph_sha256}</code></p>"
        f"<p>Written by Placement Explorer {plain(_version())}.</p></footer>"
    )


def _version() -> str:
    try:
        return version("placement-explorer")
    except PackageNotFoundError:
        return ""
