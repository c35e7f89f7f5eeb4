"""How far operators are from what was expected of them, as colours of the graph's boxes.

A diverging scale of measured / predicted: blue is faster than predicted, orange slower, on the logarithm
to base 2 and clipped at 4x. Blue and orange stay apart for protanopic, deuteranopic and tritanopic sight
(Okabe and Ito); what lies between is the page's own ground, white or dark, so that a good prediction is
quiet in both themes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

from explorer.view.graph.elements import GraphView, full_name
from explorer.view.graph.palette import BLUE, ORANGE, SKY, SURFACES, VERMILLION, Theme, mix, text_on
from explorer.view.plan_types import Report, Skeleton
from explorer.words import text

STEPS_PER_OCTAVE = 4
OCTAVES = 2
"""On either side of 1: the scale ends at 4x and at a quarter."""
MIDDLE = STEPS_PER_OCTAVE * OCTAVES
SHADES = 2 * MIDDLE + 1
NONE = "error-none"
"""Class of a box of which nothing was measured."""
ENDS: dict[Theme, tuple[str, str, str]] = {
    "light": (BLUE, "#f6f7f8", VERMILLION),
    "dark": (SKY, "#3a434d", ORANGE),
}
"""Much faster than predicted, as predicted, much slower."""
LEAST_TINT = 0.2
"""Of an end's colour in the first step from the middle: less could not be seen."""


def class_of(ratio: float | None) -> str:
    """The class of measured / predicted: "error0" (a quarter or less) to "error16" (4x or more), "error8" as
    predicted; NONE without a measurement."""
    if ratio is None or math.isnan(ratio):
        return NONE
    if ratio <= 0:
        return "error0"
    step = STEPS_PER_OCTAVE * math.log2(ratio) if math.isfinite(ratio) else math.inf
    return f"error{MIDDLE + round(max(-MIDDLE, min(MIDDLE, step)))}"


def shades(theme: Theme) -> list[dict[str, str]]:
    """For the stylesheet, one a class: class, fill, text (readable on it), border and border_style. The box
    without a measurement has a dashed border, so that it is not marked by its grey alone."""
    surface = SURFACES[theme]
    fast, same, slow = ENDS[theme]
    classes = []
    for step in range(-MIDDLE, MIDDLE + 1):
        share = 0.0 if step == 0 else LEAST_TINT + (1 - LEAST_TINT) * (abs(step) - 1) / (MIDDLE - 1)
        fill = mix(slow if step > 0 else fast, same, share)
        paint = {"class": f"error{MIDDLE + step}", "fill": fill, "text": text_on(fill)}
        classes.append({**paint, "border": mix(fill, surface.text, 0.7), "border_style": "solid"})
    grey = {"class": NONE, "fill": surface.lane, "text": surface.quiet, "border": surface.quiet}
    return [*classes, {**grey, "border_style": "dashed"}]


class Stop(TypedDict):
    fill: str
    label: str


class Unmeasured(Stop):
    border: str


class Legend(TypedDict):
    """stops: label "" but at whole octaves, from fast to slow. none: of what was not measured. words: the ends of the
    scale."""

    title: str
    stops: list[Stop]
    none: Unmeasured
    words: list[str]


class BoxErrors(TypedDict):
    """What a run lays over the boxes, each by element id. classes: of colours; labels: "1.4×", only where measured;
    titles: "measured 1.4 ms, predicted 1 ms"."""

    classes: dict[str, str]
    labels: dict[str, str]
    titles: dict[str, str]


def legend(theme: Theme) -> Legend:
    """The colours of errors in words."""
    labels = {-2: "¼×", -1: "½×", 0: "1×", 1: "2×", 2: "4×"}
    steps = shades(theme)
    stops: list[Stop] = [
        {"fill": shade["fill"], "label": "" if i % STEPS_PER_OCTAVE else labels[i // STEPS_PER_OCTAVE - OCTAVES]}
        for i, shade in enumerate(steps[:-1])
    ]
    none: Unmeasured = {"fill": steps[-1]["fill"], "border": steps[-1]["border"], "label": "no measurement"}
    return {
        "title": "measured / predicted",
        "stops": stops,
        "none": none,
        "words": ["faster than predicted", "slower than predicted"],
    }


def box_errors(view: GraphView, comparison: Report) -> BoxErrors:
    """What a comparison (`explorer.measured.comparison_object`) lays over the boxes.

    A box takes the seconds of an iteration of all its operators of which there is a measurement, backward and
    update with them.
    """
    errors: BoxErrors = {"classes": {}, "labels": {}, "titles": {}}
    for name, members in view.boxes.items():
        predicted, measured = seconds_of(comparison, members)
        ratio = ratio_of(predicted, measured)
        errors["classes"][name] = class_of(ratio)
        if ratio is not None:
            errors["labels"][name] = times_text(ratio)
            errors["titles"][name] = (
                f"measured {text.seconds(measured)}, predicted {text.seconds(predicted)} an iteration"
            )
    return errors


def seconds_of(comparison: Report, members: Sequence[int]) -> tuple[float, float]:
    """(predicted, measured) seconds of an iteration of those ``members`` (operators) that were measured."""
    known = [error for i in members if (error := comparison["operators"][i]) is not None]
    return (
        math.fsum(error["predicted_s"] * error["runs"] for error in known),
        math.fsum(error["measured_s"] * error["runs"] for error in known),
    )


def ratio_of(predicted_s: float, measured_s: float) -> float | None:
    """measured / predicted; inf for what was predicted to take no time and did, None where both are 0."""
    if predicted_s > 0:
        return measured_s / predicted_s
    return math.inf if measured_s > 0 else None


def times_text(ratio: float | None) -> str:
    """ "1.4×", or a dash."""
    return f"{text.digits(ratio)}×" if ratio is not None and math.isfinite(ratio) else text.NOTHING


def table(view: GraphView, skeleton: Skeleton, comparison: Report, limit: int = 40) -> list[dict[str, str]]:
    """The boxes whose prediction is most seconds off, the worst first: name, predicted, measured, off, ratio,
    and how it is known ("profiled", or "from its segment")."""
    rows = []
    for name, members in view.boxes.items():
        predicted, measured = seconds_of(comparison, members)
        ratio = ratio_of(predicted, measured)
        if ratio is not None:
            rows.append((abs(measured - predicted), name, predicted, measured, ratio))
    rows.sort(key=lambda row: (-row[0], row[1]))
    operators = comparison["operators"]
    return [
        {
            "name": full_name(skeleton, name),
            "predicted": text.seconds(predicted),
            "measured": text.seconds(measured),
            "off": text.signed(measured - predicted, text.seconds),
            "ratio": times_text(ratio),
            "how": "profiled"
            if any((error := operators[i]) is not None and error["profiled"] for i in view.boxes[name])
            else "from its segment",
        }
        for _, name, predicted, measured, ratio in rows[:limit]
    ]
