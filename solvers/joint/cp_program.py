"""Placement, order and transfers of one pass as a constraint program in whole units of time.

One literal per group and device, one start per task, an optional interval per (task, device) that excludes
the others of its device, and one per (message, sender, receiver) that is there if the ends are on those
devices and excludes the others of its link or lane. Runs in a child process (`solvers.background`, task
"joint-pass"): CP-SAT answers a stop late.

Every schedule that `solvers.simulate` makes of a plan is a solution, when all its times are rounded down to
units: `solvers.joint.cp_grid` argues why. So the least makespan here is a bound on that of every plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

Message = dict[str, Any]
Pair = tuple[int, int]

ROWS = 12
"""Rows that state the work between a head and a tail, the strongest ones."""


def run(payload: Message, send: Callable[[Message], None], receive: Callable[[], list[Message]]) -> None:
    """Search, and tell what is found.

    payload, all times in whole units: seconds [tasks][devices], None where a task cannot run; group_of [tasks];
    edges: pairs of tasks, the second after the first; messages: (producers, readers, [from][to] time of one
    transfer, None without a link); leave [devices], arrive [from][to]: the resource that a sender and
    a receiver occupy, or -1, devices first; resources: how many; one_by_one [devices]; rows: (bytes [groups],
    cap [devices] or None), what a device holds at once; alike: lists of devices that can be exchanged; allowed
    [groups][devices]; least, most: bounds on the makespan; start: {"place", "task", "send", "leave"} as
    `cp_start` gives them, or None; workers, seed, work: most deterministic time, or None. Messages
    sent: {"place": device of every group, "start": of every task}; {"bound": units}; last {"status"}:
    "optimal", "infeasible" or "stopped".
    """
    from ortools.sat.python import cp_model

    program = Program(cp_model, payload)
    if payload["start"] is not None:
        program.hint(payload["start"])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = payload["workers"]
    solver.parameters.random_seed = payload["seed"]
    # In 9.15 the presolve of at-most-ones that share literals with sums may cut the optimum off
    # (https://github.com/google/or-tools/issues/5293); at 0 it is left out.
    solver.parameters.presolve_inclusion_work_limit = 0
    if payload["work"] is not None:
        solver.parameters.max_deterministic_time = payload["work"]
    for name, value in payload.get("parameters", {}).items():
        setattr(solver.parameters, name, value)

    class Told(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            send(program.found(self.value))

    def tell_bound(bound: float) -> None:
        send({"bound": math.ceil(bound - 0.5)})

    solver.best_bound_callback = tell_bound
    status = solver.solve(program.model, Told())
    if status == cp_model.OPTIMAL:
        tell_bound(solver.best_objective_bound)
    names = {cp_model.OPTIMAL: "optimal", cp_model.INFEASIBLE: "infeasible"}
    send({"status": names.get(status, "stopped"), "work": solver.response_proto.deterministic_time})


class Program:
    """The constraint program; see `run` for its input."""

    def __init__(self, cp_model: Any, given: Message) -> None:
        self.given = given
        self.model = cp_model.CpModel()
        self.devices = len(given["one_by_one"])
        self.most: int = given["most"]
        self.on: list[list[Any]] = [[] for _ in range(given["resources"])]
        self.makespan = self.model.new_int_var(given["least"], self.most, "")
        self._place()
        self._tasks()
        self._room()
        self.sent: dict[tuple[int, int, int], tuple[Any, Any]] = {}
        self.left: dict[Pair, tuple[Any, Any, Any]] = {}
        self.some: list[tuple[Any, list[int], int]] = []
        for number in range(len(given["messages"])):
            self._message(number)
        for intervals in self.on:
            if len(intervals) > 1:
                self.model.add_no_overlap(intervals)
        self._shares()
        self.model.minimize(self.makespan)

    def found(self, value: Callable[[Any], int]) -> Message:
        """A solution as `run` tells it."""
        place = [next(d for d, here in row.items() if value(here)) for row in self.at]
        return {"place": place, "start": [int(value(start)) for start in self.start]}

    def _place(self) -> None:
        """at[g][d]: group g on device d, where it can run. Of devices that can be exchanged, each is used
        only by groups that follow one on the device before it, heaviest first."""
        model, given = self.model, self.given
        self.at: list[dict[int, Any]] = []
        for row in given["allowed"]:
            self.at.append({d: model.new_bool_var("") for d, able in enumerate(row) if able})
            model.add_exactly_one(self.at[-1].values())
        order = heaviest(given)
        for devices in given["alike"]:
            for before, d in pairwise(devices):
                for rank, g in enumerate(order):
                    if d in self.at[g]:
                        earlier = [self.at[h][before] for h in order[:rank] if before in self.at[h]]
                        model.add_bool_or(*earlier, self.at[g][d].negated())

    def _tasks(self) -> None:
        model, given = self.model, self.given
        self.start: list[Any] = []
        self.end: list[Any] = []
        self.least: list[int] = []
        for i, row in enumerate(given["seconds"]):
            at = self.at[given["group_of"][i]]
            times = {d: row[d] for d in at}
            self.least.append(min(times.values()))
            start = model.new_int_var(0, self.most, "")
            lasts = times[next(iter(times))] if len(set(times.values())) == 1 else sum(times[d] * at[d] for d in at)
            self.start.append(start)
            self.end.append(start + lasts)
            model.add(start + lasts <= self.makespan)
            for d, here in at.items():
                if given["one_by_one"][d]:
                    self.on[d].append(model.new_optional_fixed_size_interval_var(start, times[d], here, ""))
        for u, v in given["edges"]:
            model.add(self.start[v] >= self.end[u])

    def _room(self) -> None:
        for held, caps in self.given["rows"]:
            for d, cap in enumerate(caps):
                terms = [held[g] * row[d] for g, row in enumerate(self.at) if d in row and held[g]]
                if cap is not None and terms:
                    self.model.add(sum(terms) <= cap)

    def _any(self, tasks: list[int], d: int) -> Any:
        """A literal that is true if one of ``tasks`` is on device d, or None if none can be."""
        groups = sorted({self.given["group_of"][i] for i in tasks})
        here = [self.at[g][d] for g in groups if d in self.at[g]]
        if len(here) <= 1:
            return here[0] if here else None
        literal = self.model.new_bool_var("")
        self.model.add_max_equality(literal, here)
        self.some.append((literal, groups, d))
        return literal

    def _message(self, number: int) -> None:
        model, given = self.model, self.given
        producers, readers, times = given["messages"][number]
        here = [self._any(producers, d) for d in range(self.devices)]
        there = [self._any(readers, d) for d in range(self.devices)]
        for src in range(self.devices):
            if here[src] is None:
                continue
            for dst in range(self.devices):
                if dst == src or there[dst] is None:
                    continue
                if times[src][dst] is None:
                    model.add_bool_or(here[src].negated(), there[dst].negated())
                    continue
                self._transfer(number, src, dst, here[src], there[dst])

    def _transfer(self, number: int, src: int, dst: int, here: Any, there: Any) -> None:
        model, given = self.model, self.given
        producers, readers, times = given["messages"][number]
        lasts = times[src][dst]
        leave, arrive = given["leave"][src], given["arrive"][src][dst]
        if leave < 0 and arrive < 0:
            return
        sends = model.new_bool_var("")
        model.add_bool_or(here.negated(), there.negated(), sends)
        model.add_implication(sends, here)
        model.add_implication(sends, there)
        start = model.new_int_var(0, self.most, "")
        self.sent[number, src, dst] = (sends, start)
        group_of = given["group_of"]
        if leave < 0:
            for p in producers:
                if src in self.at[group_of[p]]:
                    model.add(start >= self.end[p]).only_enforce_if(sends, self.at[group_of[p]][src])
        else:
            if (number, src) not in self.left:
                self.left[number, src] = self._leaves(number, src)
            away, begin, size = self.left[number, src]
            model.add_implication(sends, away)
            model.add(size >= lasts).only_enforce_if(sends)
            model.add(start >= begin + size).only_enforce_if(sends)
        if arrive >= 0:
            self.on[arrive].append(model.new_optional_fixed_size_interval_var(start, lasts, sends, ""))
        else:
            lasts = 0
        for r in readers:
            if dst in self.at[group_of[r]]:
                model.add(self.start[r] >= start + lasts).only_enforce_if(sends, self.at[group_of[r]][dst])

    def _leaves(self, number: int, src: int) -> tuple[Any, Any, Any]:
        """The sending half of a message on a device: (whether it is there, start, how long it lasts)."""
        model, given = self.model, self.given
        producers, _, times = given["messages"][number]
        longest = max(t for d, t in enumerate(times[src]) if d != src and t is not None)
        away, begin = model.new_bool_var(""), model.new_int_var(0, self.most, "")
        size, end = model.new_int_var(0, longest, ""), model.new_int_var(0, 2 * self.most, "")
        for p in producers:
            here = self.at[given["group_of"][p]].get(src)
            if here is not None:
                model.add(begin >= self.end[p]).only_enforce_if(away, here)
        self.on[given["leave"][src]].append(model.new_optional_interval_var(begin, size, end, away, ""))
        return away, begin, size

    def _shares(self) -> None:
        """What follows: all tasks together need no more than all devices, and what must run after a head
        and before a tail fits between them on every device."""
        model, given = self.model, self.given
        count = sum(given["one_by_one"])
        if count < self.devices:
            return
        if count > 1:
            fixed = [model.new_fixed_size_interval_var(s, p, "") for s, p in zip(self.start, self.least, strict=True)]
            model.add_cumulative(fixed, [1] * len(fixed), count)
        for head, tail, tasks in between(self.least, given["edges"], count):
            for d in range(self.devices):
                work = [given["seconds"][i][d] * self.at[given["group_of"][i]][d]
                        for i in tasks if d in self.at[given["group_of"][i]]]  # fmt: skip
                model.add(sum(work) + head + tail <= self.makespan)

    def hint(self, start: Message) -> None:
        """Begin from a schedule; every variable is told, as a solver does little with a part."""
        model, place = self.model, start["place"]
        for row, device in zip(self.at, place, strict=True):
            for d, here in row.items():
                model.add_hint(here, d == device)
        for var, begin in zip(self.start, start["task"], strict=True):
            model.add_hint(var, begin)
        for literal, groups, d in self.some:
            model.add_hint(literal, any(place[g] == d for g in groups))
        sent = {(m, src, dst): begin for m, src, dst, begin in start["send"]}
        for key, (sends, var) in self.sent.items():
            model.add_hint(sends, key in sent)
            model.add_hint(var, sent.get(key, 0))
        left = {(m, src): (begin, lasts) for m, src, begin, lasts in start["leave"]}
        for pair, (away, begin, size) in self.left.items():
            model.add_hint(away, pair in left)
            model.add_hint(begin, left.get(pair, (0, 0))[0])
            model.add_hint(size, left.get(pair, (0, 0))[1])
        model.add_hint(self.makespan, max(self.given["least"], start["makespan"]))


def heaviest(given: Message) -> list[int]:
    """Groups, those with most work first."""
    work = [0] * len(given["allowed"])
    for i, row in enumerate(given["seconds"]):
        work[given["group_of"][i]] += min(t for t in row if t is not None)
    return sorted(range(len(work)), key=lambda g: -work[g])


def between(least: list[int], edges: list[Pair], devices: int) -> list[tuple[int, int, list[int]]]:
    """(head, tail, tasks that must run between them), the ones that say most about the makespan first."""
    count = len(least)
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for u, v in edges:
        after[u].append(v)
        before[v].append(u)
    head, tail = _longest(before, after, least), _longest(after, before, least)
    found: dict[tuple[int, ...], tuple[float, int, int]] = {}
    for a in sorted(set(head)):
        late = sorted((i for i in range(count) if head[i] >= a), key=lambda i: -tail[i])
        work = 0
        for k, i in enumerate(late):
            work += least[i]
            if k + 1 < len(late) and tail[late[k + 1]] == tail[i]:
                continue
            key = tuple(sorted(late[: k + 1]))
            value = a + work / devices + tail[i]
            if value > found.get(key, (0.0, 0, 0))[0]:
                found[key] = (value, a, tail[i])
    best = sorted(found, key=lambda key: -found[key][0])[:ROWS]
    return [(found[key][1], found[key][2], list(key)) for key in best]


def _longest(before: list[list[int]], after: list[list[int]], least: list[int]) -> list[int]:
    """Longest path that ends just before every task."""
    waiting = [len(sources) for sources in before]
    ready = [i for i, n in enumerate(waiting) if n == 0]
    longest = [0] * len(least)
    while ready:
        i = ready.pop()
        for j in after[i]:
            longest[j] = max(longest[j], longest[i] + least[i])
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    return longest
