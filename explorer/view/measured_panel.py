"""What a run says in a panel: measured beside predicted, the three errors, memory, agreement, noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

from explorer.costs.interval import Interval
from explorer.runner.bundles.outcome import COARSE, ROUNDING, Way
from explorer.view.graph.errors import times_text
from explorer.view.plan_types import AgreementReport, EnvironmentReport, PartReport, Report
from explorer.view.timeline.measured_gantt import change
from explorer.words import text

PARTS = (("operators", "operators"), ("links", "links"), ("schedule", "schedule"))
"""Key of an error in a comparison, and what it is called in a sentence."""
HINTS = {
    "operators": "What the compute times of the plan are off, all else as simulated",
    "links": "What the links' latency and bandwidth are off besides",
    "schedule": "What is left with measured times of actions and links: what the simulation does not know",
}


class Toned(TypedDict):
    """tone: "good", "bad" or ""."""

    text: str
    tone: str


class ErrorPart(TypedDict):
    """One of the three errors. percent: of the measured time. tone: "over" where it makes the run longer, "under" where
    shorter. width: its share of all three, without signs."""

    key: str
    name: str
    text: str
    percent: str
    hint: str
    tone: str
    width: float


class Panel(TypedDict):
    """What the panel shows of a run. statement: the headline sentence. kpis: name, value, note and tone of each figure.
    fed: a sentence on the simulator alone. where: a line on the hardware, "" if unknown. memory, busy and links: rows
    of the tables `MEMORY`, `BUSY` and `LINKS`. notes: sentences."""

    statement: str
    kpis: list[dict[str, str]]
    parts: list[ErrorPart]
    fed: str
    agreement: Toned | None
    noise: Toned
    where: str
    memory: list[dict[str, str]]
    busy: list[dict[str, str]]
    links: list[dict[str, str]]
    notes: list[str]


LEAST_SHARE = 0.001
"""A smaller one is shown as "< 0.1 %"."""
PLACES = 3
"""Significant digits of the measured time in the statement."""


def panel(comparison: Report, devices: Sequence[str]) -> Panel:
    """What the panel shows of a comparison (`explorer.measured.comparison_object`). devices: their names."""
    return {
        "statement": statement(comparison),
        "kpis": _kpis(comparison),
        "parts": parts(comparison),
        "fed": _fed(comparison),
        "agreement": agreement(comparison["agreement"]),
        "noise": noise(comparison),
        "where": where(comparison["environment"]),
        "memory": memory_rows(comparison, devices),
        "busy": busy_rows(comparison, devices),
        "links": link_rows(comparison, devices),
        "notes": list(comparison["notes"]),
    }


MEMORY = (("device", "Device"), ("predicted", "Predicted peak"), ("measured", "Measured peak"), ("off", "Off"))
BUSY = (("device", "Device"), ("predicted", "Busy, predicted"), ("measured", "Busy, measured"), ("off", "Off"),
        ("waited", "Waited"))  # fmt: skip
LINKS = (("link", "Link"), ("messages", "Messages"), ("size", "Median size"), ("predicted", "Predicted"),
         ("measured", "Measured"), ("ratio", "Ratio"), ("how", "Known by"))  # fmt: skip
"""Columns of the tables: key and heading."""


def statement(comparison: Report) -> str:
    """ "Measured 112 ms, predicted 98 ms: operators +9 ms, links +1 ms, schedule +4 ms": rounded such that the
    prediction and the three errors add up to the measurement."""
    predicted, rounded, unit = _rounded(comparison)
    errors = ", ".join(f"{name} {rounded[key]} {unit}" for key, name in PARTS)
    return f"Measured {rounded['measured']} {unit}, predicted {predicted} {unit}: {errors}"


def parts(comparison: Report) -> list[ErrorPart]:
    """The three errors, rounded as in the `statement`."""
    _, rounded, unit = _rounded(comparison)
    sizes = {key: abs(comparison["errors"][key]["s"]) for key, _ in PARTS}
    whole = sum(sizes.values())
    return [
        {
            "key": key,
            "name": name,
            "text": f"{rounded[key]} {unit}",
            "percent": text.signed_share(comparison["errors"][key]["share"]),
            "hint": HINTS[key],
            "tone": "over" if comparison["errors"][key]["s"] > 0 else "under",
            "width": sizes[key] / whole if whole else 0.0,
        }
        for key, name in PARTS
    ]


def agreement(report: AgreementReport | None) -> Toned | None:
    """How far the run is from the model in a plain loop, and whether that is rounding."""
    if report is None:
        return None
    most = ROUNDING.get(report["dtype"], COARSE)
    values = [report["loss"], report["gradient"], report["parameter"]]
    good = all(value is not None and value <= most for value in values)
    names = ("loss", "gradients", "parameters")
    errors = ", ".join(f"{name} {_power(value)}" for name, value in zip(names, values, strict=True))
    true = "the whole model in one process" if report["way"] == Way.WHOLE else "the model computed stage after stage"
    alike = f"; {report['undefined']} are no finite numbers, alike in both" if report["undefined"] else ""
    if good:
        return {"text": f"Agrees with {true}: {errors} ({report['dtype']}){alike}", "tone": "bad" if alike else "good"}
    worst = f", worst in {report['worst']}" if report["worst"] else ""
    return {"text": f"Differs from {true}: {errors} ({report['dtype']}){worst}", "tone": "bad"}


def noise(comparison: Report) -> Toned:
    """ "Quiet machine: a fixed piece of work varied by 1.2 %"."""
    share, word = comparison["noise"], comparison["noise_word"]
    if share is None:
        return {"text": "How noisy the machine was is not known", "tone": ""}
    words = {"quiet": "Quiet machine", "some noise": "Some noise", "noisy": "Noisy machine"}
    varied = f"{words[word]}: a fixed piece of work varied by {text.percent(share)}"
    if word == "noisy":
        varied += ", so errors of a few percent mean nothing"
    return {"text": varied, "tone": {"quiet": "good", "noisy": "bad"}.get(word, "")}


def where(environment: EnvironmentReport | None) -> str:
    """ "2 ranks on Xeon (1 host), gloo, torch 2.13.0, 1 thread each, pinned"."""
    if environment is None:
        return ""
    hardware = text.listing(list(dict.fromkeys(environment["devices"])), 3)
    hosts = text.plural(len(set(environment["hosts"])), "host")
    threads = f", {text.plural(environment['threads'], 'thread')} each" if environment["backend"] == "gloo" else ""
    pinned = ", pinned" if environment["pinned"] else ""
    ranks = text.plural(len(environment["devices"]), "rank")
    return f"{ranks} on {hardware} ({hosts}), {environment['backend']}, torch {environment['torch']}{threads}{pinned}"


def memory_rows(comparison: Report, devices: Sequence[str]) -> list[dict[str, str]]:
    """The peaks of every device that ran, and what they are made of where that was measured, `MEMORY`."""
    return [
        {
            "device": name,
            "predicted": text.nbytes(predicted),
            "measured": text.nbytes(measured),
            "off": off,
        }
        for device in comparison["devices"]
        for name, predicted, measured, off in (
            (
                devices[device["device"]],
                device["peak_predicted_bytes"],
                device["peak_measured_bytes"],
                _off(device["peak_measured_bytes"], device["peak_predicted_bytes"]),
            ),
            *((f"· {p['name']}", p["predicted_bytes"], p["measured_bytes"], _share_off(p)) for p in device["parts"]),
        )
    ]


def busy_rows(comparison: Report, devices: Sequence[str]) -> list[dict[str, str]]:
    """Compute and waiting of every device that ran, in the iteration drawn, `BUSY`."""
    return [
        {
            "device": devices[device["device"]],
            "predicted": text.seconds(device["busy_predicted_s"]),
            "measured": text.seconds(device["busy_measured_s"]),
            "off": _off(device["busy_measured_s"], device["busy_predicted_s"]),
            "waited": text.seconds(device["wait_s"]),
        }
        for device in comparison["devices"]
    ]


def link_rows(comparison: Report, devices: Sequence[str]) -> list[dict[str, str]]:
    """The links that carried something, `LINKS`; times are those of the median message."""
    rows = []
    for link in comparison["links"]:
        measured, predicted = link["measured_s"], link["predicted_s"]
        how = f"{link['how']}, {text.plural(link['waited'], 'message')}" if link["how"] else "not measured"
        rows.append(
            {
                "link": f"{devices[link['src']]} → {devices[link['dst']]}",
                "messages": text.count(link["messages"]),
                "size": text.nbytes(link["nbytes"]),
                "predicted": text.seconds(predicted),
                "measured": text.seconds(measured),
                "ratio": times_text(measured / predicted) if measured is not None and predicted else text.NOTHING,
                "how": "all-reduce" if link["how"] == "all-reduce" else how,
            }
        )
    return rows


def _kpis(comparison: Report) -> list[dict[str, str]]:
    bubble, low_high = comparison["bubble"], comparison.get("within")
    within = f"; {Interval(*low_high).words()}" if low_high else ""
    name = "Makespan" if comparison["objective"] == "makespan" else "Iteration"
    iterations = text.plural(len(comparison["iterations_s"]), "iteration")
    return [
        {"name": f"{name}, measured", "value": text.seconds(comparison["measured_s"]),
         "note": f"median of {iterations}", "tone": ""},
        {"name": "Predicted", "value": text.seconds(comparison["predicted_s"]),
         "note": f"{text.signed_share(comparison['error'])} off{within}", "tone": ""},
        {"name": "Fastest", "value": text.seconds(comparison["fastest_s"]), "note": f"of {iterations}", "tone": ""},
        {"name": "Bubble", "value": text.percent(bubble["measured"]),
         "note": f"{text.percent(bubble['predicted'])} predicted", "tone": ""},
    ]  # fmt: skip


def _fed(comparison: Report) -> str:
    """ "Fed with measured times, the simulation is 10.5 % too short; each iteration with its own, 0.5 % too long." """
    whole, each = _side(comparison["fed_error"]), _side(comparison["fed_each_error"])
    return f"Fed with measured times, the simulation is {whole}; each iteration with its own, {each}."


def _side(error: float) -> str:
    if abs(error) < LEAST_SHARE:
        return "right"
    return f"{text.percent(abs(error))} too {'short' if error < 0 else 'long'}"


def _rounded(comparison: Report) -> tuple[str, dict[str, str], str]:
    """The prediction, the measurement and the errors as text in one unit, adding up (by largest remainder)."""
    measured, predicted = comparison["measured_s"], comparison["predicted_s"]
    scale, unit = text.time_unit(max(measured, predicted) or 1.0)
    places = max(0, PLACES - 1 - math.floor(math.log10(max(measured, predicted, scale * 1e-9) / scale)))
    grain = 10.0**-places * scale
    ends = round(predicted / grain), round(measured / grain)
    exact = {key: comparison["errors"][key]["s"] / grain for key, _ in PARTS}
    whole = {key: math.floor(value) for key, value in exact.items()}
    missing = ends[1] - ends[0] - sum(whole.values())
    order = sorted(exact, key=lambda key: whole[key] - exact[key])
    for n in range(abs(missing)):
        key = order[n % len(order)] if missing > 0 else order[-1 - n % len(order)]
        whole[key] += 1 if missing > 0 else -1
    words = {key: text.signed(value, lambda size: _fixed(round(size), places)) for key, value in whole.items()}
    words["measured"] = _fixed(ends[1], places)
    return _fixed(ends[0], places), words, unit


def _fixed(value: int, places: int) -> str:
    return f"{value / 10**places:,.{places}f}"


def _off(measured: float | None, predicted: float | None) -> str:
    return change(measured, predicted) or text.NOTHING if measured is not None else text.NOTHING


def _share_off(part: PartReport) -> str:
    """ "+10 %", of a part of a device's memory, in which words have no room."""
    predicted = part["predicted_bytes"]
    return text.signed_share(part["measured_bytes"] / predicted - 1) if predicted > 0 else text.NOTHING


def _power(value: float | None) -> str:
    """ "3e-08"; exactly 0 is shown so."""
    if value is None:
        return "not a number"
    return "0" if value == 0 else f"{value:.0e}"
