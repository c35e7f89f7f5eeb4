"""The dialog in which a file is opened, an example is chosen, or a custom module is brought in."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.jobs.requests import MAX_OPERATORS, READ_BYTES, READ_S, UPLOAD_BYTES
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.words import text
from solvers.formats.json_text import MAX_DEPTH

INFLATED_BYTES = 64 * 2**20
KINDS = (
    ("Models", ".pt2 of torch.export, .onnx, graph.json, MSR 2020, PipeDream graph.txt, Piper"),
    ("Plans", "plan.json, as this tool writes it"),
    ("Placements", '{"module or operator": device}, such as a device_map with numbers; lists of MSR 2020'),
    ("Traces of a run", "of torch.profiler, over the plan on the page: .json.gz of one rank, .zip of those of all"),
    ("Costs, clusters", "profile.json and operator times of calibrate; devices and links as JSON or YAML"),
)
OWN = "placement-explorer app package.module:callable"
EXAMPLES = 8


def open_dialog(catalogue: Catalogue) -> Component:
    small = [model.name for model in catalogue.models if not model.name.endswith("-small")][:EXAMPLES]
    size, inside, memory = (text.nbytes(limit) for limit in (UPLOAD_BYTES, INFLATED_BYTES, READ_BYTES))
    limits = (
        f"At most {size} ({inside} of graph inside a .pt2, whose weights are not sent and not counted), {MAX_DEPTH}"
        f" levels of JSON, {MAX_OPERATORS:,} operators, {memory} of memory and {READ_S:g} s to read."
        " Files are data here: nothing in them is run, pickles are never opened."
    )
    return html.Dialog(
        [
            html.Div(
                [
                    html.H2("Open"),
                    html.Button("Close", className="tool", **{"data-close": "open"}),
                ],
                className="spread",
            ),
            html.Div(
                [
                    html.B("Drop a file anywhere on the page"),
                    html.Button("Choose a file …", id=ids.OPEN_CHOOSE, className="tool strong"),
                ],
                className="drop-zone",
            ),
            html.Dl([part for name, what in KINDS for part in (html.Dt(name), html.Dd(what))], className="kinds-list"),
            html.P(limits, className="small quiet"),
            html.Div(id=ids.OPEN_RECENT, className="recent", hidden=True),
            html.H3("Examples"),
            html.Div(
                [html.Button(name, className="tool", **{"data-example": name}) for name in small], className="actions"
            ),
            html.H3("A module of your own"),
            html.P(
                [
                    "Its code runs, so it is named where the server starts, never in a browser. The callable returns"
                    " (module, example inputs):",
                ],
                className="small quiet",
            ),
            html.Div(
                [
                    html.Code(OWN, tabIndex=0),
                    html.Button("Copy", className="tool", **{"data-copy": OWN, "aria-label": "Copy the command"}),
                ],
                className="own",
            ),
        ],
        id=ids.OPEN_DIALOG,
        className="dialog",
        **{"aria-label": "Open a file or an example"},
    )
