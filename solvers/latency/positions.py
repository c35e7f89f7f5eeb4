"""The latency of one sample with one piece per accelerator, as a constraint program over positions.

A plan is a chain of downsets: positions 0..2K, the odd ones the pieces of the K accelerators in
topological order, the even ones phases of operators on CPUs. "At position j or before" is one
literal per operator and position, and along a tensor it implies the same for the producer: so
plans are contiguous and acyclic by construction, and equal accelerators are interchangeable no more.
Runs in a child process (`solvers.programs.background`, task "latency-positions"): CP-SAT answers a stop late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from solvers.programs.cp_solver import Message, cp_solver, minimise

SCALE = 1_000_000
"""Integer units in the best latency known. Times are rounded down, so a bound stays one."""

HINT_WORK = 20.0
"""Deterministic time for completing a hint, at most."""

MEMORY_SCALE = 1_000_000
"""Integer units in the memory of an accelerator."""


def run(payload: Message, send: Callable[[Message], None], receive: Callable[[], list[Message]]) -> None:
    """Search, and send what is found.

    payload: slots (accelerators); unit_of [operators] number of the unit (block) that moves as a
    whole; edges (pairs of operators); messages (producer, readers, seconds); acc_s, cpu_s [operators],
    cpu_s None where a CPU cannot run it; can_run, nbytes [units]; acc_bytes or None; least_s, most_s:
    bounds on the latency; start: position of every unit, or None; paths: lists of operators for
    redundant constraints; workers, seed; work: most deterministic time, or None. Messages sent:
    {"position": of every unit}; {"bound": seconds}; last {"status"}: "optimal", "infeasible" or "stopped".
    """
    from ortools.sat.python import cp_model

    program = Positions(cp_model, payload)
    if payload["start"] is not None:
        program.hint(payload["start"], payload["seed"])
    solver = cp_solver(payload["workers"], payload["seed"])
    solver.parameters.linearization_level = 2
    if payload["work"] is not None:
        solver.parameters.max_deterministic_time = payload["work"]
    status = minimise(
        solver,
        program.model,
        send,
        lambda at: {"position": program.positions(at.value)},
        lambda bound: math.floor(bound + 1e-6) / program.units_per_s,
    )
    send({"status": status})


class Positions:
    """The constraint program; see the module and `run` for its meaning and input."""

    def __init__(self, cp_model: Any, given: Message) -> None:
        self.cp, self.given = cp_model, given
        self.model = cp_model.CpModel()
        self.slots = given["slots"]
        self.count = 2 * self.slots + 1
        self.units = len(given["nbytes"])
        self.unit_of: list[int] = given["unit_of"]
        self.units_per_s: float = SCALE / given["most_s"]
        self.most = self.whole(given["most_s"]) + 2
        self._place()
        self._memory()
        self._times()
        for path in given["paths"]:
            self._path(path)
        self.model.minimize(self.last)

    def whole(self, seconds: float) -> int:
        """Seconds in integer units, rounded down."""
        return math.floor(seconds * self.units_per_s)

    def _place(self) -> None:
        """at[u][j]: unit u at position j; by[u][j]: at j or before."""
        model, given = self.model, self.given
        self.at = [[model.new_bool_var("") for _ in range(self.count)] for _ in range(self.units)]
        self.by: list[list[Any]] = []
        self.on_cpu = [model.new_bool_var("") for _ in range(self.units)]
        runs = [True] * self.units
        for operator, seconds in enumerate(given["cpu_s"]):
            runs[self.unit_of[operator]] &= seconds is not None
        for u, row in enumerate(self.at):
            model.add_exactly_one(row)
            by = [row[0]]
            for j in range(1, self.count - 1):
                here = model.new_bool_var("")
                model.add_implication(by[-1], here)
                model.add_implication(row[j], here)
                model.add_bool_or(here.negated(), by[-1], row[j])
                by.append(here)
            self.by.append(by)
            model.add(sum(row[0::2]) == self.on_cpu[u])
            if not given["can_run"][u]:
                model.add(self.on_cpu[u] == 1)
            if not runs[u]:
                model.add(self.on_cpu[u] == 0)
        pairs = {(self.unit_of[a], self.unit_of[b]) for a, b in given["edges"]}
        for a, b in sorted((a, b) for a, b in pairs if a != b):
            for j in range(self.count - 1):
                model.add_implication(self.by[b][j], self.by[a][j])

    def _memory(self) -> None:
        given = self.given
        if given["acc_bytes"] is None:
            return
        share = [math.floor(nbytes / given["acc_bytes"] * MEMORY_SCALE) for nbytes in given["nbytes"]]
        for slot in range(self.slots):
            held = [share[u] * self.at[u][2 * slot + 1] for u in range(self.units) if share[u]]
            if held:
                self.model.add(sum(held) <= MEMORY_SCALE)

    def _times(self) -> None:
        """Starts and durations of the slots, ends of the operators, the end of all."""
        model, given = self.model, self.given
        operators = len(self.unit_of)
        self.start = [model.new_int_var(0, self.most, "") for _ in range(self.slots)]
        self.took: list[Any] = []
        self.end = [model.new_int_var(0, self.most, "") for _ in range(operators)]
        self.last = model.new_int_var(max(0, self.whole(given["least_s"]) - 1), self.most, "")
        self.crossing: dict[tuple[int, int], list[tuple[Any, Any]]] = {}
        acc = [0] * self.units
        for operator, seconds in enumerate(given["acc_s"]):
            acc[self.unit_of[operator]] += self.whole(seconds)
        work: list[list[Any]] = [
            [acc[u] * self.at[u][2 * slot + 1] for u in range(self.units) if acc[u]] for slot in range(self.slots)
        ]
        for producer, readers, seconds in given["messages"]:
            units = sorted({self.unit_of[r] for r in readers} - {self.unit_of[producer]})
            for slot in range(self.slots if units else 0):
                fetched, sent = self._transfer(producer, units, slot)
                price = self.whole(seconds)
                if price:
                    work[slot] += [price * fetched, price * sent]
                model.add(self.start[slot] >= self.end[producer]).only_enforce_if(fetched)
        for slot in range(self.slots):
            took = model.new_int_var(0, self.most, "")
            model.add(took == sum(work[slot]))
            self.took.append(took)
            for operator, unit in enumerate(self.unit_of):
                here = self.at[unit][2 * slot + 1]
                model.add(self.end[operator] >= self.start[slot] + took).only_enforce_if(here)
        before: list[list[int]] = [[] for _ in range(operators)]
        for a, b in given["edges"]:
            before[b].append(a)
        for operator in range(operators):
            alone = self.whole(given["cpu_s"][operator] or 0.0) * self.on_cpu[self.unit_of[operator]]
            model.add(self.last >= self.end[operator])
            model.add(self.end[operator] >= alone)
            for source in before[operator]:
                model.add(self.end[operator] >= self.end[source] + alone)

    def _transfer(self, producer: int, units: Sequence[int], slot: int) -> tuple[Any, Any]:
        """Literals: the slot fetches a message from elsewhere; the slot sends it elsewhere."""
        model, j = self.model, 2 * slot + 1
        fetched, sent = model.new_bool_var(""), model.new_bool_var("")
        here = self.at[self.unit_of[producer]][j]
        for unit in units:
            there = self.at[unit][j]
            model.add_bool_or(fetched, here, there.negated())
            model.add_bool_or(sent, here.negated(), there)
            self.crossing.setdefault((self.unit_of[producer], unit), []).append((here, there))
        return fetched, sent

    def _path(self, path: Sequence[int]) -> None:
        """The slots that a path visits, and its operators on CPUs, come one after the other."""
        model, given = self.model, self.given
        parts: list[Any] = [self.whole(given["cpu_s"][v] or 0.0) * self.on_cpu[self.unit_of[v]] for v in path]
        units = sorted({self.unit_of[v] for v in path})
        for slot in range(self.slots):
            share = model.new_int_var(0, self.most, "")
            model.add(share <= self.took[slot])
            for unit in units:
                model.add(share >= self.took[slot]).only_enforce_if(self.at[unit][2 * slot + 1])
            work = [self.whole(given["acc_s"][v]) * self.at[self.unit_of[v]][2 * slot + 1] for v in path]
            model.add(share >= sum(work))
            parts.append(share)
        model.add(self.last >= sum(parts))

    def hint(self, position: Sequence[int], seed: int) -> None:
        """Hint at a whole solution: positions alone are completed by a first solve (partial hints fail)."""
        for u, row in enumerate(self.at):
            for j, literal in enumerate(row):
                self.model.add_hint(literal, int(position[u] == j))
        first = cp_solver(1, seed)
        first.parameters.fix_variables_to_their_hinted_value = True
        first.parameters.max_deterministic_time = HINT_WORK
        if first.solve(self.model) in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            values = list(first.response_proto.solution)
            self.model.clear_hints()
            self.model.proto.solution_hint.vars.extend(range(len(values)))
            self.model.proto.solution_hint.values.extend(values)

    def positions(self, value: Callable[[Any], Any]) -> list[int]:
        """The position of every unit in a solution."""
        return [next(j for j, literal in enumerate(row) if value(literal)) for row in self.at]
