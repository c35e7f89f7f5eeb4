"""The run of a plan as Dash components: before it, while it goes on, how it ended, and the runs before."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from explorer.question.models.example import says_degree
from explorer.view import measured_panel
from explorer.view.events import Prepared, ReplannedView
from explorer.view.plan_types import RunView
from explorer.web.parts import panels
from explorer.web.parts.markup import titled_table
from explorer.web.state.runs import Going
from explorer.words import text

MEMORY = (("device", "Peak memory"), ("predicted", "Predicted"), ("measured", "Measured"), ("off", "Off"))
LOCAL = "local"
"""The target that is this machine."""
SAME = 0.005
"""Relative difference below which two plans are as fast as each other to people."""
TAIL = 8
"""Lines of the log that are in sight while a run goes on."""


def idle() -> list[Component]:
    return [
        html.P(
            "Runs this plan with torch.distributed, a process a device, and lays what was measured over the"
            " prediction: times, memory, and where the prediction was wrong.",
            className="small quiet",
        )
    ]


def checked(prepared: Prepared, waits: bool) -> list[Component]:
    """What the checks before a run found (`explorer.view.run_events.prepared`). waits: whether a run waits for
    somebody to agree that the costs are of other hardware."""
    ranks, refused, warnings = prepared["ranks"], prepared["refused"], prepared["warnings"]
    parts: list[Component] = []
    if refused:
        return [_points("This plan cannot be run.", refused, "run-message bad")]
    if prepared["elsewhere"]:
        divided = says_degree(prepared["model"])
        parts.append(_other_hardware(prepared["elsewhere"], prepared["target"], waits, divided))
    if warnings:
        parts.append(_points("Before you run it:", warnings, "run-message warn"))
    if not parts:
        processes = "1 process" if ranks == 1 else f"{ranks} processes"
        parts.append(html.P(f"Ready to run on {processes}. The checks before a run found nothing to warn of."))
    return parts


def _other_hardware(words: str, target: str, waits: bool, divided: bool) -> Component:
    """divided: of a plan whose tensors are, which has no costs measured there."""
    again = html.Button("Run it all the same", className="tool", **{"data-act": "run-anyway"})
    here = html.Button(
        "Plan for this machine" if target == LOCAL else f"Plan for {target}",
        className="tool strong",
        title="Measures every operator and link there, then plans with what was measured",
        **{"data-act": "plan-here"},
    )
    return html.Div(
        [
            html.B(words),
            html.Span(
                "A run there cannot say how well this plan would do on the hardware it is for: the times would differ"
                " for reasons that have nothing to do with the plan."
                + ("" if divided else " With costs measured there, they compare.")
            ),
            html.Div([*([] if divided else [here]), *([again] if waits else [])], className="actions"),
        ],
        className="run-message warn",
    )


def going(run: Going) -> list[Component]:
    """A run that goes on."""
    phase, done, of, elapsed_s = run.phase or "starting", run.done, run.of, time.monotonic() - run.began
    share = done / of if of else None
    bar = {
        "role": "progressbar",
        "aria-label": phase,
        "aria-valuemin": "0",
        "aria-valuemax": str(of or 1),
    }
    if share is not None:
        bar["aria-valuenow"] = str(done)
    words = phase + (f" {done:,} of {of:,}" if of else " …")
    return [
        html.Div(
            [
                html.B("Measuring costs" if run.what == "replan" else "Running"),
                html.Span(f"on {run.target}", className="quiet"),
                html.Span(words, className="run-phase"),
                html.Span(text.seconds(elapsed_s), className="run-clock", **{"data-elapsed": f"{elapsed_s:.2f}"}),
            ],
            className="run-going",
        ),
        html.Div(
            html.I(style={"width": f"{100 * share:.1f}%"} if share is not None else None),
            className="run-bar" if share is not None else "run-bar unknown",
            **bar,
        ),
        log(list(run.lines), "The log's last lines"),
    ]


def log(lines: Sequence[str], what: str, tail: int = TAIL) -> Component:
    """tabIndex: it scrolls, so the keyboard must reach it."""
    return html.Pre("\n".join(lines[-tail:]), className="run-log", tabIndex=0, **{"aria-label": what})


def report(run: RunView, is_drawn: bool) -> list[Component]:
    """A run that has ended. run: see `explorer.jobs.run_kinds.run_view`. is_drawn: whether its plan is on the page."""
    if run["report"] is None:
        ended = failure(_title(run), run["reason"], run["log"], run["notes"], run["status"] != "cancelled")
        return [*ended, again(run["folder"], run["command"])]
    panel = measured_panel.panel(run["report"], run["devices"])
    sure = [part for part in (panel["agreement"], panel["noise"]) if part is not None]
    plain = [
        part[:1].upper() + part[1:] for part in dict.fromkeys((panel["where"], *panel["notes"], *run["notes"])) if part
    ]
    return [
        *([] if is_drawn else [_elsewhere(run)]),
        _headline(panel),
        html.Div(
            [
                _parts(panel),
                _small(MEMORY, panel["memory"], "Peak memory, predicted and measured"),
            ],
            className="run-grid",
        ),
        html.Ul(
            [html.Li(part["text"], className=part["tone"]) for part in sure] + [html.Li(words) for words in plain],
            className="run-facts",
        ),
        *([again(run["folder"], run["command"])] if run["folder"] else []),
        _more(panel),
    ]


def run_in_a_line(run: RunView) -> str:
    """How a run ended, for those who listen."""
    if run["report"] is None:
        return f"{_title(run)} {run['reason']}"
    return measured_panel.statement(run["report"])


def replanned_in_a_line(view: ReplannedView) -> str:
    after, before = (text.seconds(of["measured_s"]) for of in (view["after"], view["before"]))
    return f"Planned again with measured costs: {after}, before {before}"


def _title(run: RunView) -> str:
    titles = {"cancelled": "The run was cancelled.", "time limit": "The run took too long and was stopped."}
    return titles.get(run["status"], "The run failed.")


def replanned(view: ReplannedView) -> list[Component]:
    """A plan made again with measured costs, beside the one it replaces."""
    before, after = view["before"], view["after"]
    estimated, measured = text.seconds(before["estimated_s"]), text.seconds(before["measured_s"])
    rows = [
        ("The plan before", before["planner"], estimated, measured),
        ("Planned again", after["planner"], text.NOTHING, text.seconds(after["measured_s"])),
    ]
    gain = 1 - after["measured_s"] / before["measured_s"] if before["measured_s"] else 0.0
    words = (
        f"With measured costs, planning again is {text.percent(gain)} faster."
        if gain > SAME
        else "With measured costs, the plan before is still as good as any that was found."
    )
    head = (("", ""), ("Planner", ""), ("With estimated costs", "n"), ("With measured costs", "n"))
    body = [
        html.Tr([html.Th(what, scope="row"), html.Td(planner), *[html.Td(cell, className="n") for cell in cells]])
        for what, planner, *cells in rows
    ]
    return [
        html.Div(html.B(words), className="run-top"),
        titled_table("Before and after", head, body, "comparison small-table"),
        html.P(
            f"Costs: {view['costs_from']}. The plan on the page is the new one; run it to see.", className="small quiet"
        ),
    ]


def _headline(panel: measured_panel.Panel) -> Component:
    figures = [
        html.Div([html.Span(kpi["name"]), html.B(kpi["value"]), html.Em(kpi["note"])], className="figure")
        for kpi in panel["kpis"]
    ]
    return html.Div(figures, className="figures", title=panel["statement"])


def _elsewhere(run: RunView) -> Component:
    return html.Div(
        [
            html.Span("This run is of another plan than the one on the page."),
            html.Button("Show its plan", className="tool", **{"data-act": "show-run", "data-arg": run["bundle"]}),
        ],
        className="run-message",
    )


def _parts(panel: measured_panel.Panel) -> Component:
    return html.Div(
        [
            html.Div(
                [
                    html.Span(part["name"][:1].upper() + part["name"][1:]),
                    html.I(
                        html.I(className=part["tone"], style={"width": f"{100 * part['width']:.1f}%"}),
                        className="gauge-line",
                    ),
                    html.B(part["text"]),
                    html.Em(part["percent"]),
                ],
                className="off",
                title=part["hint"],
            )
            for part in panel["parts"]
        ]
        + [html.P(panel["fed"], className="small quiet")],
        className="offs",
    )


def _small(columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, str]], caption: str) -> Component:
    table = panels.table(columns, rows, caption)
    table.className = "small-table"
    return table


def _more(panel: measured_panel.Panel) -> Component:
    return html.Details(
        [
            html.Summary("Devices and links"),
            _small(measured_panel.BUSY, panel["busy"], "Compute and waiting, predicted and measured"),
            _small(measured_panel.LINKS, panel["links"], "Links, predicted and measured"),
        ],
        className="more",
    )


def failure(
    title: str, reason: str, lines: Sequence[str], notes: Sequence[str] = (), bad: bool = True
) -> list[Component]:
    """A run that did not come to its end. bad: whether nobody wanted that."""
    name = "run-message bad" if bad else "run-message"
    parts: list[Component] = [html.Div([html.B(title), html.Span(reason)], className=name)]
    parts += [html.P(note, className="small quiet") for note in notes]
    if lines:
        parts.append(log(lines, "The log's last lines", 40))
    return parts


def again(folder: str, command: str) -> Component:
    """Where the bundle is, and how to run it by hand."""
    rows = [("Bundle", folder, "Copy the path"), ("By hand", command, "Copy the command")]
    return html.Dl(
        [
            part
            for name, value, what in rows
            for part in (
                html.Dt(name),
                html.Dd(
                    [
                        html.Code(value, title=value, tabIndex=0),
                        html.Button("Copy", className="tool", title=what, **{"data-copy": value, "aria-label": what}),
                    ]
                ),
            )
        ],
        className="run-again",
    )


def _points(title: str, points: Sequence[str], name: str) -> Component:
    if len(points) == 1:
        return html.Div([html.B(title), html.Span(points[0])], className=name)
    return html.Div([html.B(title), html.Ul([html.Li(point) for point in points])], className=name)
