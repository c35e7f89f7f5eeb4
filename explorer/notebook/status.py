"""How a search stands, in words: state (a name that colours the dot), words and more."""

from __future__ import annotations

from typing import TypedDict

from explorer.view.events import Event, ProgressEvent, ResultEvent, before_you
from explorer.view.no_plan import NoPlanWords, no_plan_words
from explorer.words import text


class Status(TypedDict):
    """state: a name that colours the dot. banner: why there is no plan, None while that is open."""

    state: str
    words: str
    more: str
    banner: NoPlanWords | None


def status(state: str, words: str, more: str = "", banner: NoPlanWords | None = None) -> Status:
    return {"state": state, "words": words, "more": more, "banner": banner}


WAITING = status("waiting", "waiting", "for the solver")


def of_event(event: Event, planner: str) -> Status | None:
    """What an event of the worker's says; None if nothing changes by it."""
    if event["kind"] == "waiting":
        return status("waiting", "waiting", before_you(event))
    if event["kind"] == "compiling":
        if not event["kernel"]:
            return None
        return status("loading", "compiling, once", f"{event['kernel']} · {text.seconds(event['seconds'])} so far")
    if event["kind"] == "loading":
        return status("loading", event["text"])
    if event["kind"] == "progress":
        return status("solving", planner, _course(event))
    if event["kind"] == "failed":
        banner: NoPlanWords = {"title": "This could not be solved.", "lines": [event["message"]], "cap": None}
        return status("failed", "failed", "", banner)
    return _answer(event) if event["kind"] == "result" else None


def _course(event: ProgressEvent) -> str:
    parts = [text.seconds(event["objective_s"]) if event["objective_s"] is not None else "no plan yet"]
    if event["bound_s"]:
        parts.append(f"bound {text.seconds(event['bound_s'])}")
    parts.append(f"after {text.seconds(event['elapsed_s'])}")
    return " · ".join(parts)


def _answer(event: ResultEvent) -> Status:
    took = f"{event['planner']}, {text.seconds(event['runtime_s'])}"
    if event["plan"] is None:
        state = "infeasible" if event["status"] == "INFEASIBLE" else "none"
        if event["stop_reason"] == "CANCELLED":
            return status("cancelled", "cancelled", took)
        words = "infeasible" if state == "infeasible" else "no plan"
        return status(state, words, took, no_plan_words(event))
    objective = event["plan"]["objective_s"]
    if event["status"] == "OPTIMAL":
        return status("optimal", "optimal", f"{text.seconds(objective)} · {took}")
    gap = f"gap {text.percent(1 - event['bound_s'] / objective)}" if event["bound_s"] and objective else "no bound"
    why = {"TIME_LIMIT": "time limit", "CANCELLED": "cancelled"}.get(event["stop_reason"], "best found")
    return status("feasible", why, f"{text.seconds(objective)}, {gap} · {took}")


def reason(banner: NoPlanWords) -> str:
    """A banner as one line."""
    return " ".join([banner["title"], *banner["lines"]])
