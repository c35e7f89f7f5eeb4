"""A review as Dash components: the verdict, the plan's hash, a way to take it along, and a line for every question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dash import html
from dash.development.base_component import Component

from explorer.web.parts.markup import titled_table

if TYPE_CHECKING:
    from explorer.reviews.review import LineView, ReviewView

MARKS = {"pass": "✓", "warn": "!", "fail": "✕"}
WORDS = {
    "pass": "Nothing stands against this plan",
    "warn": "The plan holds; read the warnings",
    "fail": "The plan cannot be used as it is",
}
SHOWN_HASH = 16
HIDDEN = {"aria-hidden": "true"}


def review(view: ReviewView | None, words: str) -> list[Component]:
    """view: see `explorer.reviews.review.review_object`; None if there is none, for the reason in ``words``."""
    if view is None:
        return [html.P(words, className="quiet empty-tab")]
    lines = [line for line in view["lines"] if line["what"] != "plan hash"]
    counts = {verdict: sum(line["verdict"] == verdict for line in lines) for verdict in MARKS}
    hashed = view["plan_sha256"]
    return [
        html.Div(
            [
                html.B(WORDS[view["verdict"]], className=f"verdict {view['verdict']}"),
                html.Span(" · ".join(f"{counts[one]} {one}" for one in MARKS), className="quiet roomy"),
                html.Div(className="spring"),
                html.Span(
                    [
                        "plan ",
                        html.Code(hashed[:SHOWN_HASH], title=f"SHA-256 of graph, question and plan: {hashed}"),
                    ],
                    className="quiet",
                ),
                html.Button("Copy", className="tool", **{"data-copy": hashed, "aria-label": "Copy the plan's hash"}),
                html.Button(
                    "Download as one HTML file",
                    className="tool strong",
                    title="The review with its pictures, readable anywhere",
                    **{"data-act": "export", "data-arg": "report-html"},
                ),
            ],
            className="review-head",
        ),
        html.Div(
            titled_table(
                "Review of the plan",
                (("Verdict", ""), ("Question", ""), ("Answer and reason", "")),
                [_line(line) for line in sorted(lines, key=lambda line: _rank(line["verdict"]))],
                "review-lines",
            ),
            className="table-wrap",
            tabIndex=0,
        ),
    ]


def _rank(verdict: str) -> int:
    """What stands against a plan comes first."""
    return ("fail", "warn", "pass").index(verdict)


def _line(line: LineView) -> Component:
    verdict = line["verdict"]
    return html.Tr(
        [
            html.Td([html.B(MARKS[verdict], **HIDDEN), f" {verdict}"], className=f"verdict-mark {verdict}"),
            html.Th(line["what"], scope="row"),
            html.Td(line["reason"], className="reason"),
        ]
    )
