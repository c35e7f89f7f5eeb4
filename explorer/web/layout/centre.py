"""The centre: key figures, graph beside schedule, tabs below."""

from __future__ import annotations

import dash_cytoscape as cyto
from dash import html
from dash.development.base_component import Component

from explorer.view.graph.palette import Theme
from explorer.view.graph.stylesheet import stylesheet
from explorer.view.session import Session
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.web.layout.clock import clock, cursor
from explorer.web.layout.fields import Checkbox, Tabs
from explorer.web.layout.run_tab import run_tab
from explorer.web.parts.scenario_panel import scenarios


def centre(catalogue: Catalogue, session: Session) -> Component:
    return html.Main(
        [
            html.Div(id=ids.KPIS, className="kpis"),
            html.Div(id=ids.BANNER, className="banner", hidden=True, role="alert"),
            html.Div(id=ids.PAIR, className="pair"),
            html.Div(
                [
                    html.Div([_graph(session), _split("upright"), _gantt(session)], className="views"),
                    _split("flat"),
                    _tabs(catalogue),
                ],
                className="panes",
            ),
        ],
        className="centre",
        id="centre",
        tabIndex=-1,
    )


def _graph(session: Session) -> Component:
    return html.Section(
        [
            html.Div(
                [
                    html.H2("Model", className="sr"),
                    _choice(
                        ids.GRAPH_KIND,
                        "What the boxes are",
                        session.look.graph,
                        (("operators", "Operators"), ("stages", "Stages")),
                    ),
                    html.Span(id=ids.GRAPH_COUNT, className="quiet of-operators"),
                    html.Span(id=ids.STAGES_NOTE, className="quiet of-stages"),
                    html.Div(className="spring"),
                    _hidden(_toggle("Errors", ids.GRAPH_COLOUR, "Colour by measured / predicted, not by device")),
                    _tool("−", ids.SHALLOWER, "Show fewer levels of modules"),
                    html.Span(id=ids.GRAPH_DEPTH, className="quiet"),
                    _tool("+", ids.DEEPER, "Show one more level of modules"),
                    _tool("/", ids.FIND, "Find an operator or module by name: press /"),
                    _tool("Fit", ids.GRAPH_FIT, "Fit the graph to its frame"),
                    _whole("graph", "The graph"),
                ],
                className="card-head",
            ),
            html.Div(id=ids.VALUES_LEGEND, className="values-legend of-operators"),
            html.Div(id=ids.ERROR_LEGEND, className="error-legend of-operators", hidden=True),
            html.Div([_operators(session.theme), _stages()], className="canvases"),
            _twin("Graph as a table", ids.GRAPH_TABLE, "of-operators"),
            _twin("Stages as a table", ids.STAGE_TABLE, "of-stages"),
        ],
        className="card graph-card",
        **{"data-graph": session.look.graph},
    )


def _operators(theme: Theme) -> Component:
    return html.Div(
        [
            cyto.Cytoscape(
                id=ids.GRAPH,
                elements=[],
                layout={"name": "preset", "fit": False},
                stylesheet=stylesheet(theme),
                style={"width": "100%", "height": "100%"},
                minZoom=0.02,
                maxZoom=2.0,
                autoungrabify=True,
                boxSelectionEnabled=False,
                clearOnUnhover=False,
            ),
            html.Div(className="veil"),
        ],
        className="canvas of-operators",
        tabIndex=0,
        role="img",
        **{
            "aria-label": "Operators grouped by module, coloured by device. Arrow keys move between boxes, "
            "Enter expands, Escape clears. The same as a table is below."
        },
    )


def _stages() -> Component:
    return html.Div(
        [html.Div(id=ids.STAGES, className="stages"), html.Div(className="veil")],
        className="canvas of-stages",
        role="group",
        **{
            "aria-label": "Stages from left to right, by depth. Arrow keys move between them, Enter selects one. "
            "The same as a table is below."
        },
    )


SPLITS = {
    "upright": ("vertical", "Width of the graph", "42", "20", "75"),
    "flat": ("horizontal", "Height of graph and schedule", "62", "30", "85"),
}
"""Of each bar: which way it runs, what it sets, that in percent at first, the least and the most."""


def _split(which: str) -> Component:
    way, what, now, least, most = SPLITS[which]
    return html.Div(
        className=f"split {which}",
        role="separator",
        tabIndex=0,
        **{
            "aria-orientation": way,
            "aria-label": what,
            "aria-valuenow": now,
            "aria-valuemin": least,
            "aria-valuemax": most,
            "data-usual": now,
        },
    )


def _whole(part: str, what: str) -> Component:
    """A button that shows a part in place of all, and again that puts it back."""
    attributes = {"data-whole-of": part, "aria-pressed": "false", "aria-label": f"{what} in place of all"}
    return html.Button("⤢", className="tool whole", title=f"{what} in place of all: press m", **attributes)


def _gantt(session: Session) -> Component:
    return html.Section(
        [
            html.Div(
                [
                    html.H2("Schedule"),
                    _hidden(
                        _choice(
                            ids.GANTT_WHICH,
                            "Whose times are drawn",
                            "both",
                            (("predicted", "Predicted"), ("measured", "Measured"), ("both", "Both")),
                        )
                    ),
                    html.Span(id=ids.GANTT_COUNT, className="quiet"),
                    html.Div(className="spring"),
                    html.Span("Rows", className="quiet rows-label"),
                    _choice(
                        ids.GANTT_ROWS,
                        "What a row is",
                        session.look.rows,
                        (("devices", "Devices"), ("stages", "Stages")),
                    ),
                    _toggle("Links", ids.GANTT_LINKS, "A row for every link that carries transfers"),
                    _toggle(
                        [html.Span("Critical path", className="long"), html.Span("Path", className="brief")],
                        ids.GANTT_PATH,
                        "Critical path: the chain of operators and transfers that decides the end",
                    ),
                    _tool("Fit", ids.GANTT_FIT, "Show the whole schedule"),
                    _whole("schedule", "The schedule"),
                ],
                className="card-head",
            ),
            html.Div(id=ids.GANTT_LEGEND, className="gantt-legend"),
            html.Div(
                [
                    html.Div(id=ids.GANTT),
                    cursor(),
                    html.Div(className="veil"),
                ],
                className="canvas",
                tabIndex=0,
                role="group",
                **{
                    "aria-label": "Schedule: a row a device, a stage or a link, a bar a stage and micro-batch, an "
                    "operator or a transfer. Plus and minus zoom, arrow keys move, 0 shows all. The rows' names are "
                    "buttons. The same as a table is below."
                },
            ),
            clock(),
            _twin("Schedule as a table", ids.GANTT_TABLE),
        ],
        className="card gantt-card",
    )


def _tabs(catalogue: Catalogue) -> Component:
    panels = {
        "memory": html.Div(id=ids.MEMORY_CARDS, className="memory"),
        "devices": html.Div(id=ids.DEVICE_TABLE, className="table-wrap", tabIndex=0),
        "compare": _compare(),
        "search": _search(),
        "scenarios": html.Div(scenarios([], None, ("", ""), ""), id=ids.SCENARIOS, className="compare"),
        "sweep": _sweep(),
        "review": html.Div(id=ids.REVIEW, className="review"),
        "run": run_tab(catalogue),
    }
    shown = next(iter(panels))
    names = [{"value": name, "label": name.capitalize()} for name in panels]
    return html.Section(
        [
            Tabs(id=ids.TABS, data=names, value=shown, **{"aria-label": "Details"}),
            _whole("details", "This panel"),
            *(_panel(name, part, name != shown) for name, part in panels.items()),
        ],
        className="card tabs-card",
        **{"aria-label": "Details"},
    )


def _panel(name: str, part: Component, hidden: bool) -> Component:
    attributes = {"data-panel": name, "aria-labelledby": f"tab-{name}"}
    return html.Div(part, id=f"panel-{name}", role="tabpanel", hidden=hidden, **attributes)


def _search() -> Component:
    """The objective and the bound over time, beside the steps of the search."""
    return html.Div(
        [
            html.Div(
                [
                    html.P([html.Span(className="search-words"), html.Span(id=ids.SEARCH_MORE, className="quiet")]),
                    html.Div(id=ids.SEARCH_PLOT, className="plot"),
                ],
                className="search-left",
            ),
            html.Div(
                [html.Div(id=ids.BY_PLANNER), html.Ol(id=ids.LOG, className="log")],
                className="search-right",
                tabIndex=0,
                **{"aria-label": "Which planner found what, and when"},
            ),
        ],
        className="search",
    )


def _sweep() -> Component:
    """One thing changed in steps: the plan at each, and the bound, as curves."""
    return html.Div(
        [
            html.Div(
                [
                    _choice(
                        ids.SWEEP_AXIS,
                        "What is changed",
                        "devices",
                        (
                            ("devices", "GPUs"),
                            ("memory_bytes", "Memory"),
                            ("micro_batches", "Micro-batches"),
                            ("bandwidth_bytes_per_s", "Bandwidth"),
                        ),
                    ),
                    html.Button("Sweep", id=ids.SWEEP_START, className="tool strong"),
                    html.Button("Stop", id=ids.SWEEP_STOP, className="tool", disabled=True),
                    html.Span(
                        "Solves the question at each value, quickly; a click on a point goes there.",
                        id=ids.SWEEP_NOTE,
                        className="quiet",
                        role="status",
                    ),
                ],
                className="compare-head",
            ),
            html.Div(id=ids.SWEEP_PLOT, className="plot sweep-plot"),
        ],
        className="compare",
    )


def _compare() -> Component:
    return html.Div(
        [
            html.Div(
                [
                    html.Button("Compare planners", id=ids.COMPARE, className="tool strong", n_clicks=0),
                    html.Button("Stop", id=ids.COMPARE_STOP, className="tool", n_clicks=0, disabled=True),
                    Checkbox(children="All contiguities", id=ids.COMPARE_EVERY, checked=False),
                    html.Span(id=ids.COMPARE_NOTE, className="quiet"),
                ],
                className="compare-head",
            ),
            html.Div(id=ids.COMPARISON, className="table-wrap", tabIndex=0),
        ],
        className="compare",
    )


def _choice(id_: str, what: str, value: str, choices: tuple[tuple[str, str], ...]) -> Component:
    """Buttons of which one is pressed."""
    buttons = [
        html.Button(label, **{"data-value": key, "aria-pressed": "true" if key == value else "false"})
        for key, label in choices
    ]
    return html.Div(buttons, id=id_, className="choice", role="group", **{"aria-label": what})


def _hidden(part: Component) -> Component:
    """What there is only where the plan has run."""
    part.hidden = True
    return part


def _tool(label: str, id_: str, what: str) -> Component:
    """Its name is what it says, or, for a sign, what it does."""
    named = {} if label[0].isalpha() else {"aria-label": what}
    return html.Button(label, id=id_, className="tool", n_clicks=0, title=what, **named)


def _toggle(label: str | list[Component], id_: str, what: str) -> Component:
    return html.Button(label, id=id_, className="tool", title=what, **{"aria-pressed": "false"})


def _twin(title: str, id_: str, when: str = "") -> Component:
    return html.Details(
        [html.Summary(title), html.Div(id=id_, className="table-wrap")], className=f"twin {when}".strip()
    )
