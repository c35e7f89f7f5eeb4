"""result.json: the outcome of a run, written by rank 0 and read by whoever asked for the run. No torch here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from explorer.costs.profile_json import profile_object, read_profile
from explorer.files import write_file
from explorer.runner.bundles.outcome import (
    Agreement,
    Environment,
    MeasuredAction,
    MeasuredMessage,
    Outcome,
    RunStatus,
    Way,
)
from explorer.runner.bundles.words import one_line
from explorer.runner.scripts.script import parse_step
from solvers.errors import InvalidPlan, InvalidProblem
from solvers.formats.graph_json import read_header
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, finite_or_none, parse_json

FORMAT = "placement-explorer/run"
VERSION = 1
MAX_RANKS = 4096
MAX_SEGMENTS = 1_000_000
MAX_ITERATIONS = 100_000
MAX_ROWS = 1_000_000
"""Actions, and messages, that one file holds; a longer run keeps those of its first iterations."""
MAX_OPERATORS = 1_000_000
MAX_NOTES = 1_000

T = TypeVar("T")
_ACTION = ("rank", "iteration", "action", "start_s", "end_s", "wait_s", "engine_s")
_MESSAGE = (
    "channel", "piece", "src_rank", "dst_rank", "iteration", "action", "nbytes", "sent_s", "arrived_s", "waited",
)  # fmt: skip
_ENVIRONMENT = ("hosts", "devices", "backend", "torch", "python", "threads", "date", "pinned")
_AGREEMENT = ("loss", "gradient", "parameter", "worst", "dtype", "compared", "way", "undefined")
_REQUIRED = ("status", "reason", "culprit", "environment", "iterations_s", "actions", "messages")
_OPTIONAL = (
    "segments", "rank_devices", "peak_bytes", "losses", "noise", "agreement", "operators_s", "notes",
    "profile",
)  # fmt: skip


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Write a result.json. Raises NotWritten."""
    write_file(path, outcome_text(outcome), "saving the result of the run")


def outcome_text(outcome: Outcome) -> str:
    """The text of a result.json; `read_outcome` of it gives the outcome back. null stands for a loss that is
    not a number and for an infinite difference. Of more actions or messages than MAX_ROWS those of the first
    iterations are kept, and a note says so."""
    kept = _fitting(outcome)
    return dump_json(
        {
            "format": FORMAT,
            "version": VERSION,
            "status": kept.status.value,
            "reason": kept.reason,
            "culprit": kept.culprit,
            "environment": None if kept.environment is None else _columns(kept.environment, _ENVIRONMENT),
            "iterations_s": list(kept.iterations_s),
            "actions": {"fields": list(_ACTION), "rows": [_row(action, _ACTION) for action in kept.actions]},
            "messages": {"fields": list(_MESSAGE), "rows": [_row(message, _MESSAGE) for message in kept.messages]},
            "segments": [list(stages) for stages in kept.segments],
            "rank_devices": list(kept.rank_devices),
            "peak_bytes": list(kept.peak_bytes),
            "losses": [finite_or_none(loss) for loss in kept.losses],
            "noise": None if kept.noise is None else finite_or_none(kept.noise),
            "agreement": None if kept.agreement is None else _columns(kept.agreement, _AGREEMENT),
            "operators_s": dict(kept.operators_s),
            "notes": list(kept.notes),
            **({} if kept.profile is None else {"profile": profile_object(kept.profile)}),
        }
    )


def read_outcome(data: bytes | str | object, where: str = "result.json") -> Outcome:
    """The outcome in a result.json (its text, or its parsed value), which may come from another machine.

    Types, ranges and sizes are checked, and words for people are made fit to be shown; whether it is of the plan
    at hand is not checked. Raises InvalidProblem.
    """
    value = parse_json(data, where) if isinstance(data, bytes | str) else data
    parts = read_header(Field(value, f"{where}:"), FORMAT, VERSION, _REQUIRED, _OPTIONAL)
    environment, noise, agreement = parts["environment"], parts.get("noise"), parts.get("agreement")
    return Outcome(
        parts["status"].choice(RunStatus),
        one_line(parts["reason"].text()),
        parts["culprit"].integer(-1, MAX_RANKS - 1),
        None if environment.is_null else _read_environment(environment),
        _numbers(parts["iterations_s"], MAX_ITERATIONS),
        tuple(MeasuredAction(*row) for row in _rows(parts["actions"], _ACTION, _ACTION_CELLS)),
        tuple(MeasuredMessage(*row) for row in _rows(parts["messages"], _MESSAGE, _MESSAGE_CELLS)),
        _list(parts, "segments", MAX_SEGMENTS, _stages),
        _list(parts, "rank_devices", MAX_RANKS, lambda item: item.integer()),
        _numbers(parts["peak_bytes"], MAX_RANKS, -math.inf) if "peak_bytes" in parts else (),
        _list(parts, "losses", MAX_ITERATIONS, lambda item: math.nan if item.is_null else item.number(-math.inf)),
        None if noise is None or noise.is_null else noise.number(),
        None if agreement is None or agreement.is_null else _read_agreement(agreement),
        {
            name: item.number()
            for name, item in (parts["operators_s"].mapping(MAX_OPERATORS) if "operators_s" in parts else {}).items()
        },
        _list(parts, "notes", MAX_NOTES, lambda item: one_line(item.text())),
        None if "profile" not in parts else read_profile(parts["profile"].value, parts["profile"].where),
    )


def _fitting(outcome: Outcome) -> Outcome:
    notes = list(outcome.notes)
    actions, messages = _first_iterations(outcome.actions), _first_iterations(outcome.messages)
    for what, all_of, some in (("actions", outcome.actions, actions), ("messages", outcome.messages, messages)):
        if len(some) < len(all_of):
            notes.append(f"of {len(all_of):,} {what} the times of the first {len(some):,} are kept")
    return replace(outcome, actions=actions, messages=messages, notes=tuple(notes[-MAX_NOTES:]))


def _first_iterations(rows: tuple[T, ...]) -> tuple[T, ...]:
    """Those of whole iterations, as many as MAX_ROWS allow (of the first one, what it allows)."""
    if len(rows) <= MAX_ROWS:
        return rows
    counts: dict[int, int] = {}
    for row in rows:
        iteration = row.iteration  # type: ignore[attr-defined]
        counts[iteration] = counts.get(iteration, 0) + 1
    total, last = 0, min(counts)
    for iteration in sorted(counts):
        total += counts[iteration]
        if total > MAX_ROWS:
            break
        last = iteration
    return tuple(row for row in rows if row.iteration <= last)[:MAX_ROWS]  # type: ignore[attr-defined]


def _row(value: object, names: Sequence[str]) -> list[object]:
    return [getattr(value, name) for name in names]


def _columns(value: object, names: Sequence[str]) -> dict[str, object]:
    told: dict[str, object] = {}
    for name in names:
        found = getattr(value, name)
        told[name] = (
            list(found) if isinstance(found, tuple) else finite_or_none(found) if isinstance(found, float) else found
        )
    return told


def _step(item: Field) -> str:
    text = item.text(64)
    try:
        parse_step(text)
    except InvalidPlan as error:
        raise InvalidProblem(f"{item.where}: {error}") from None
    return text


def _any_number(item: Field) -> float:
    return item.number(-math.inf)


def _rank(item: Field) -> int:
    return item.integer(0, MAX_RANKS - 1)


def _integer(item: Field) -> int:
    return item.integer()


def _flag(item: Field) -> bool:
    return item.flag()


_ACTION_CELLS: tuple[Callable[[Field], object], ...] = (
    _rank, _integer, _step, _any_number, _any_number, _any_number, _any_number,
)  # fmt: skip
_MESSAGE_CELLS: tuple[Callable[[Field], object], ...] = (
    _integer, _integer, _rank, _rank, _integer, _step, _integer, _any_number, _any_number, _flag,
)  # fmt: skip


def _rows(field: Field, names: Sequence[str], cells: Sequence[Callable[[Field], object]]) -> list[list[object]]:
    """The rows of a table whose columns must be ``names``."""
    parts = field.fields(("fields", "rows"))
    if parts["fields"].value != list(names):
        parts["fields"].refuse(f"the fields {', '.join(names)}")
    return [
        [read(cell) for read, cell in zip(cells, row.items(len(cells), exactly=len(cells)), strict=True)]
        for row in parts["rows"].items(MAX_ROWS)
    ]


def _list(parts: dict[str, Field], name: str, most: int, read: Callable[[Field], T]) -> tuple[T, ...]:
    return tuple(read(item) for item in parts[name].items(most)) if name in parts else ()


def _numbers(field: Field, most: int, least: float = 0.0) -> tuple[float, ...]:
    return tuple(item.number(least) for item in field.items(most))


def _stages(field: Field) -> tuple[int, ...]:
    return tuple(item.integer() for item in field.items(MAX_SEGMENTS))


def _read_environment(field: Field) -> Environment:
    parts = field.fields(_ENVIRONMENT)
    return Environment(
        tuple(one_line(item.text(300)) for item in parts["hosts"].items(MAX_RANKS)),
        tuple(one_line(item.text(300)) for item in parts["devices"].items(MAX_RANKS)),
        one_line(parts["backend"].text(100)),
        one_line(parts["torch"].text(100)),
        one_line(parts["python"].text(100)),
        parts["threads"].integer(),
        one_line(parts["date"].text(100)),
        parts["pinned"].flag(),
    )


def _read_agreement(field: Field) -> Agreement:
    parts = field.fields(_AGREEMENT[:-2], _AGREEMENT[-2:])
    return Agreement(
        parts["loss"].number_or_infinity(),
        parts["gradient"].number_or_infinity(),
        parts["parameter"].number_or_infinity(),
        one_line(parts["worst"].text()),
        one_line(parts["dtype"].text(100)),
        parts["compared"].integer(),
        parts["way"].choice(Way) if "way" in parts else Way.WHOLE,
        parts["undefined"].integer() if "undefined" in parts else 0,
    )
