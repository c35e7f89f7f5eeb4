"""result.json: the outcome of a run, written by rank 0 and read by whoever asked for the run. No torch here."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from explorer.costs.profile_json import profile_object, read_profile
from explorer.files import write_file
from explorer.runner.bundles.outcome import (
    MAX_NOTES,
    MAX_ROWS,
    MeasuredAction,
    MeasuredExchange,
    MeasuredMessage,
    Outcome,
)
from solvers.formats.graph_json import read_header
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, parse_json
from solvers.formats.records import keys_of, record_json, record_of, table_json

FORMAT = "placement-explorer/run"
VERSION = 1

Row = TypeVar("Row", MeasuredAction, MeasuredMessage, MeasuredExchange)


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Write a result.json. Raises NotWritten."""
    write_file(path, outcome_text(outcome), "saving the result of the run")


def outcome_text(outcome: Outcome) -> str:
    """The text of a result.json; `read_outcome` of it gives the outcome back. null stands for a loss that is
    not a number and for an infinite difference. Of more actions or messages than MAX_ROWS those of the first
    iterations are kept, and a note says so."""
    shortened = _fitting(outcome)
    value = record_json(replace(shortened, actions=(), messages=(), exchanges=(), profile=None))
    value["actions"] = table_json(MeasuredAction, shortened.actions)
    value["messages"] = table_json(MeasuredMessage, shortened.messages)
    value["exchanges"] = table_json(MeasuredExchange, shortened.exchanges)
    del value["profile"]
    if not shortened.exchanges:
        del value["exchanges"]
    if shortened.profile is not None:
        value["profile"] = profile_object(shortened.profile)
    return dump_json({"format": FORMAT, "version": VERSION, **value})


def read_outcome(data: bytes | str | object, where: str = "result.json") -> Outcome:
    """The outcome in a result.json (its text, or its parsed value), which may come from another machine.

    Types, ranges and sizes are checked, and words for people are made fit to be shown; whether it is of the plan
    at hand is not checked. Raises InvalidProblem.
    """
    value = parse_json(data, where) if isinstance(data, bytes | str) else data
    parts = read_header(Field(value, f"{where}:"), FORMAT, VERSION, *keys_of(Outcome))
    profile = parts.get("profile")
    return record_of(Outcome, parts, profile=None if profile is None else read_profile(profile.value, profile.where))


def _fitting(outcome: Outcome) -> Outcome:
    notes = list(outcome.notes)
    actions, messages = _first_iterations(outcome.actions), _first_iterations(outcome.messages)
    exchanges = _first_iterations(outcome.exchanges)
    for what, every, some in (
        ("actions", outcome.actions, actions),
        ("messages", outcome.messages, messages),
        ("exchanges", outcome.exchanges, exchanges),
    ):
        if len(some) < len(every):
            notes.append(f"of {len(every):,} {what} the times of the first {len(some):,} are kept")
    return replace(outcome, actions=actions, messages=messages, exchanges=exchanges, notes=tuple(notes[-MAX_NOTES:]))


def _first_iterations(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Those of whole iterations, as many as MAX_ROWS allow (of the first one, what it allows)."""
    if len(rows) <= MAX_ROWS:
        return rows
    counts = Counter(row.iteration for row in rows)
    total, last = 0, min(counts)
    for iteration in sorted(counts):
        total += counts[iteration]
        if total > MAX_ROWS:
            break
        last = iteration
    return tuple(row for row in rows if row.iteration <= last)[:MAX_ROWS]
