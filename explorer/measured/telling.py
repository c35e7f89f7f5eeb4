"""A comparison as rows for a terminal and as JSON for a page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from explorer.measured.comparison import Comparison
from explorer.measured.measured_bars import measured_bars
from explorer.view.timeline import bars as view_bars
from explorer.words import text
from solvers.formats.json_text import finite_or_none

SCHEDULE = "schedule"
PART_WORDS = {
    "operators": "operator costs",
    "links": "links",
    SCHEDULE: "schedule model",
}
"""The three errors, in the order in which they are told."""


def rows(comparison: Comparison, same_hardware: bool = True) -> list[list[str]]:
    """What, seconds, and the share of the measured time, for a table in a terminal: the prediction, the three
    errors, the measurement, and below them the simulator fed with measured times, bubbles and noise. Where the costs
    are not of the hardware that it ran on, the prediction and what its costs were off by say nothing, and are left
    out."""
    told = [["predicted", text.seconds(comparison.predicted_s), ""]] if same_hardware else []
    for key, seconds in errors_s(comparison).items():
        if same_hardware or key == SCHEDULE:
            told.append(
                [PART_WORDS[key], text.signed(seconds, text.seconds), text.signed_share(comparison.share(seconds))]
            )
    count = text.plural(len(comparison.iterations_s), "iteration")
    fastest = f"median of {count}, fastest {text.seconds(comparison.fastest_s)}"
    told.append(["measured", text.seconds(comparison.measured_s), fastest])
    if same_hardware:
        told.append(
            [
                "prediction off by",
                text.signed(-comparison.total_error_s, text.seconds),
                text.signed_share(comparison.error),
            ]
        )
    told.append(["fed with measured times", text.seconds(comparison.fed_s), text.signed_share(comparison.fed_error)])
    told.append(["each iteration with its own", "", text.signed_share(comparison.fed_each_error)])
    bubbles = text.percent(comparison.bubble_predicted), text.percent(comparison.bubble_measured)
    told.append(["bubble", f"{bubbles[0]} predicted", f"{bubbles[1]} measured"])
    noise = text.NOTHING if comparison.noise is None else text.percent(comparison.noise)
    told.append(["machine", comparison.noise_word, noise if comparison.noise is not None else ""])
    return told


def errors_s(comparison: Comparison) -> dict[str, float]:
    """Seconds of the three errors, by the keys of PART_WORDS; they add up to measured - predicted."""
    return {
        "operators": comparison.operators_error_s,
        "links": comparison.links_error_s,
        SCHEDULE: comparison.schedule_error_s,
    }


def comparison_object(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON, which the functions of `explorer.view.timeline.measured_gantt`, `measured_panel` and
    `errors` read.

    objective; predicted_s, operators_fed_s, fed_s, measured_s, fastest_s, iterations_s, drawn_s; errors: key of
    PART_WORDS or "total" -> {s, share}; error, fed_error and fed_each_error: shares; bubble: {predicted,
    measured}; segments, links and devices: a list of the fields of `SegmentError`, `LinkError` and
    `DeviceError`, the first with ratio; operators: by position {predicted_s, measured_s, runs, profiled, ratio},
    or None; bars: {predicted, fed, measured}, each `explorer.view.timeline.bars.Bars`, the measured ones as
    `explorer.measured.measured_bars.measured_bars` gives them; agreement and environment: their fields, or None;
    noise (None: unknown), noise_word, losses, notes.
    """
    told = {**errors_s(comparison), "total": comparison.total_error_s}
    return {
        "objective": comparison.objective.value,
        "predicted_s": comparison.predicted_s,
        "operators_fed_s": comparison.operators_fed_s,
        "fed_s": comparison.fed_s,
        "measured_s": comparison.measured_s,
        "fastest_s": comparison.fastest_s,
        "iterations_s": list(comparison.iterations_s),
        "drawn_s": comparison.drawn_s,
        "errors": {key: {"s": s, "share": comparison.share(s)} for key, s in told.items()},
        "error": comparison.error,
        "fed_error": comparison.fed_error,
        "fed_each_error": comparison.fed_each_error,
        "bubble": {"predicted": comparison.bubble_predicted, "measured": comparison.bubble_measured},
        "segments": [{**_plain(asdict(s)), "ratio": s.ratio} for s in comparison.segments],
        "operators": [None if o is None else {**asdict(o), "ratio": o.ratio} for o in comparison.operators],
        "links": [_plain(asdict(link)) for link in comparison.links],
        "devices": [_plain(asdict(device)) for device in comparison.devices],
        "bars": {
            "predicted": view_bars.bars(comparison.predicted),
            "fed": view_bars.bars(comparison.fed),
            "measured": measured_bars(comparison.spans),
        },
        "agreement": None if comparison.agreement is None else _plain(asdict(comparison.agreement)),
        "environment": None if comparison.environment is None else _plain(asdict(comparison.environment)),
        "noise": comparison.noise,
        "noise_word": comparison.noise_word,
        "losses": [finite_or_none(loss) for loss in comparison.losses],
        "notes": list(comparison.notes),
    }


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity and no tuples."""
    return {
        name: list(value) if isinstance(value, tuple) else finite_or_none(value) if isinstance(value, float) else value
        for name, value in fields.items()
    }
