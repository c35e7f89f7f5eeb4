"""Placement, order and transfers of one pass as a constraint program in whole units of time.

One literal per group and device, one start per task, an optional interval per (task, device) that excludes
the others of its device, and one per (message, sender, receiver) that is there if the ends are on those
devices and excludes the others of its link or lane. Runs in a child process (`solvers.programs.background`, task
"joint-pass"): CP-SAT answers a stop late.

Every schedule that `solvers.evaluation` makes of a plan is a solution, when all its times are rounded down to
units: `solvers.joint.exact.cp_grid` argues why. So the least makespan here is a bound on that of every plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from solvers.programs.cp_solver import Message, cp_solver, minimise

Pair = tuple[int, int]
Ends = tuple[tuple[int, ...], int]
"""Groups, and a device that some of them are on."""

ROWS = 12
"""Rows that state the work between a head and a tail, the strongest ones."""


def run(payload: Message, send: Callable[[Message], None], receive: Callable[[], list[Message]]) -> None:
    """Search, and send what is found.

    payload, all times in whole units: seconds [tasks][devices], None where a task cannot run; group_of [tasks];
    edges: pairs of tasks, the second after the first; messages: (producers, readers, [from][to] time of one
    transfer, None without a link); leave [devices], arrive [from][to]: the resource that a sender and
    a receiver occupy, or -1, devices first; resources: how many; one_by_one [devices]; rows: (bytes [groups],
    cap [devices] or None), what a device holds at once; alike: lists of devices that can be exchanged; allowed
    [groups][devices]; heaviest: groups, those with most work first; head, tail [tasks]: the longest paths that end
    just before each, and begin just after it; least, most: bounds on the makespan; start: as `cp_grid.in_units`
    gives it, or None; workers, seed, work: most deterministic time, or None. Messages
    sent: {"place": device of every group, "start": of every task, "sent": (message, from, to, start) of every transfer
    that occupies a link or a lane}; {"bound": units}; last {"status"}:
    "optimal", "infeasible" or "stopped".
    """
    from ortools.sat.python import cp_model

    program = Program(cp_model, payload)
    if payload["start"] is not None:
        program.hint(payload["start"])
    solver = cp_solver(payload["workers"], payload["seed"])
    if payload["work"] is not None:
        solver.parameters.max_deterministic_time = payload["work"]
    for name, value in payload.get("parameters", {}).items():
        setattr(solver.parameters, name, value)
    status = minimise(
        solver, program.model, send, lambda at: program.solution(at.value), lambda bound: math.ceil(bound - 0.5)
    )
    send({"status": status, "work": solver.response_proto.deterministic_time})


class Program:
    """The constraint program; see `run` for its input."""

    def __init__(self, cp_model: Any, given: Message) -> None:
        self.given = given
        self.model = cp_model.CpModel()
        self.devices = len(given["one_by_one"])
        self.most: int = given["most"]
        self.on: list[list[Any]] = [[] for _ in range(given["resources"])]
        self.carried: list[list[tuple[Any, int]]] = [[] for _ in self.on]
        self.makespan = self.model.new_int_var(given["least"], self.most, "")
        self._place()
        self._tasks()
        self._room()
        self.sent: dict[tuple[int, int, int], Any] = {}
        self.moves: dict[tuple[int, int, int], Any] = {}
        self.left: dict[Pair, tuple[Any, Any, Any]] = {}
        self.some: dict[tuple[tuple[int, ...], int], Any] = {}
        self.both: dict[tuple[Ends, Ends], Any] = {}
        for number in range(len(given["messages"])):
            self._message(number)
        for intervals in self.on:
            if len(intervals) > 1:
                self.model.add_no_overlap(intervals)
        self._shares()
        self._wires()
        self.model.minimize(self.makespan)

    def solution(self, value: Callable[[Any], int]) -> Message:
        """The message of a solution, see `run`."""
        place = [next(d for d, here in row.items() if value(here)) for row in self.at]
        sent = [(*key, int(value(self.sent[key]))) for key, moves in self.moves.items() if value(moves)]
        return {"place": place, "start": [int(value(start)) for start in self.start], "sent": sent}

    def _place(self) -> None:
        """at[g][d]: group g on device d, where it can run. Of devices that can be exchanged, each is used
        only by groups that follow one on the device before it, heaviest first."""
        model, given = self.model, self.given
        self.at: list[dict[int, Any]] = []
        for row in given["allowed"]:
            self.at.append({d: model.new_bool_var("") for d, able in enumerate(row) if able})
            model.add_exactly_one(self.at[-1].values())
        order = given["heaviest"]
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

    def _any(self, groups: tuple[int, ...], d: int) -> Any:
        """A literal that is true if one of ``groups`` is on device d, or None if none can be."""
        here = [self.at[g][d] for g in groups if d in self.at[g]]
        if len(here) <= 1:
            return here[0] if here else None
        if (groups, d) not in self.some:
            self.some[groups, d] = self.model.new_bool_var("")
            self.model.add_max_equality(self.some[groups, d], here)
        return self.some[groups, d]

    def _sends(self, here: Ends, there: Ends) -> Any:
        """A literal that is true if some groups are on one device and some on another: the same for a tensor and
        for its gradient on the way back."""
        key = (here, there) if here < there else (there, here)
        if key not in self.both:
            self.both[key] = sends = self.model.new_bool_var("")
            a, b = self._any(*here), self._any(*there)
            self.model.add_bool_or(a.negated(), b.negated(), sends)
            self.model.add_implication(sends, a)
            self.model.add_implication(sends, b)
        return self.both[key]

    def _message(self, number: int) -> None:
        producers, readers, times = self.given["messages"][number]
        of = self.given["group_of"]
        makers = tuple(sorted({of[i] for i in producers}))
        users = tuple(sorted({of[i] for i in readers}))
        for src in range(self.devices):
            for dst in range(self.devices):
                here, there = self._any(makers, src), self._any(users, dst)
                if dst == src or here is None or there is None:
                    continue
                if times[src][dst] is None:
                    self.model.add_bool_or(here.negated(), there.negated())
                else:
                    self._transfer(number, src, dst, (makers, src), (users, dst))

    def _transfer(self, number: int, src: int, dst: int, here: Ends, there: Ends) -> None:
        model, given = self.model, self.given
        producers, readers, times = given["messages"][number]
        lasts = times[src][dst]
        leave, arrive = given["leave"][src], given["arrive"][src][dst]
        if leave < 0 and arrive < 0:
            return
        sends = self._sends(here, there)
        start = model.new_int_var(0, self.most, "")
        self.sent[number, src, dst], self.moves[number, src, dst] = start, sends
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
            self.carried[arrive].append((lasts * sends, number))
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
        for head, tail, tasks in self._between(count):
            for d in range(self.devices):
                work = [given["seconds"][i][d] * self.at[given["group_of"][i]][d]
                        for i in tasks if d in self.at[given["group_of"][i]]]  # fmt: skip
                model.add(sum(work) + head + tail <= self.makespan)

    def _between(self, devices: int) -> list[tuple[int, int, list[int]]]:
        """(head, tail, tasks that must run between them), the ones that say most about the makespan first."""
        head, tail = self.given["head"], self.given["tail"]
        best_of: dict[tuple[int, ...], tuple[float, int, int]] = {}
        for a in sorted(set(head)):
            late = sorted((i for i in range(len(head)) if head[i] >= a), key=lambda i: -tail[i])
            work = 0
            for k, i in enumerate(late):
                work += self.least[i]
                if k + 1 < len(late) and tail[late[k + 1]] == tail[i]:
                    continue
                key = tuple(sorted(late[: k + 1]))
                value = a + work / devices + tail[i]
                if value > best_of.get(key, (0.0, 0, 0))[0]:
                    best_of[key] = (value, a, tail[i])
        best = sorted(best_of, key=lambda key: -best_of[key][0])[:ROWS]
        return [(best_of[key][1], best_of[key][2], list(key)) for key in best]

    def _wires(self) -> None:
        """What follows, too: all that a link carries comes after what makes the first of it, and before what
        reads the last."""
        given = self.given
        head, tail = given["head"], given["tail"]
        for carried in self.carried[self.devices :]:
            if len(carried) > 1:
                makers = {p for _, number in carried for p in given["messages"][number][0]}
                users = {r for _, number in carried for r in given["messages"][number][1]}
                first = min(head[p] + self.least[p] for p in makers)
                last = min(tail[r] + self.least[r] for r in users)
                self.model.add(sum(units for units, _ in carried) + first + last <= self.makespan)

    def hint(self, start: Message) -> None:
        """Begin from a schedule; every variable has a hint, as a solver does little with a part."""
        model, place = self.model, start["place"]
        for row, device in zip(self.at, place, strict=True):
            for d, here in row.items():
                model.add_hint(here, d == device)
        for var, begin in zip(self.start, start["task"], strict=True):
            model.add_hint(var, begin)
        for (groups, d), literal in self.some.items():
            model.add_hint(literal, any(place[g] == d for g in groups))
        for ends, literal in self.both.items():
            model.add_hint(literal, all(any(place[g] == d for g in groups) for groups, d in ends))
        sent = {(m, src, dst): begin for m, src, dst, begin in start["send"]}
        for key, begin in self.sent.items():
            model.add_hint(begin, sent.get(key, 0))
        left = {(m, src): (begin, lasts) for m, src, begin, lasts in start["leave"]}
        for pair, (away, begin, size) in self.left.items():
            model.add_hint(away, pair in left)
            model.add_hint(begin, left.get(pair, (0, 0))[0])
            model.add_hint(size, left.get(pair, (0, 0))[1])
        model.add_hint(self.makespan, max(self.given["least"], start["makespan"]))
