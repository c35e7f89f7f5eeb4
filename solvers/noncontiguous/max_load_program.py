"""Max-load without contiguity as a constraint program: nearly bin packing where messages are cheap.

One literal per super-operator and device, one per net and accelerator that says that the net is cut
there, and loads that are sums of integers (Tarnawski et al., NeurIPS 2020, section 5.2). Runs in a
child process (`solvers.programs.background`, task "max-load"): CP-SAT answers a stop late.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from solvers.programs.cp_solver import Message, cp_solver, minimise
from solvers.programs.scaled_model import new_numbers

SCALE = 1_000_000_000
"""Integer units in the best max-load known. Times are rounded down, so a bound stays one."""

FIRST_SLICE_S, NEARBY = 2.0, 5
"""Seconds of the first search of everything, and how much longer that of neighbourhoods is; both are
doubled after every turn."""

LEAST_WORK = 0.01
"""The least deterministic time of a search."""

MEMORY_SCALE = 100_000_000
"""Integer units in the memory of an accelerator."""


def run(payload: Message, send: Callable[[Message], None], receive: Callable[[], list[Message]]) -> None:
    """Search, and send what is found.

    payload: seconds [super-operators][devices], None where it cannot run; is_cpu [devices]; nets:
    pairs of pins and seconds, which an accelerator pays that holds some but not all of the pins;
    lane: whether a load is the larger of compute and messages rather than their sum; held
    [super-operators] and cap [devices] bytes, None where there is no limit; alike: lists of devices
    that can be exchanged for each other; start [super-operators] device of each, numbered as
    `renamed` does; least_s, most_s: bounds on the max-load; workers, seed; work: deterministic time (about seconds)
    after which it ends, or None. Messages sent: {"where": device of every super-operator}; {"bound": seconds}. Ends
    when the best placement is proved best. With work and one worker what is found hangs on the payload alone.

    A search of everything, which proves, takes turns with one of neighbourhoods only, which finds far
    better placements of hundreds of super-operators.
    """
    from ortools.sat.python import cp_model

    program = Packing(cp_model, payload)
    program.hint(payload["start"])
    bound = whole_bound(cp_model, program)
    send({"bound": bound / program.units_per_s})
    program.model.add(program.peak >= bound)
    slice_s = FIRST_SLICE_S
    counted = payload["work"] is not None
    left = payload["work"] if counted else math.inf
    while left > 0:
        for nearby, limit_s in ((False, slice_s), (True, NEARBY * slice_s)):
            payload["seed"] = (payload["seed"] + 1) % 2**31
            solver = cp_solver(payload["workers"], payload["seed"])
            if counted:
                solver.parameters.max_deterministic_time = max(min(limit_s, left), LEAST_WORK)
            else:
                solver.parameters.max_time_in_seconds = limit_s
            solver.parameters.use_lns_only = nearby
            if _solve(solver, program, send):
                return
            left -= max(solver.response_proto.deterministic_time, LEAST_WORK)
        slice_s *= 2


def _solve(solver: Any, program: Packing, send: Callable[[Message], None]) -> bool:
    """Search from the best placement known for as long as ``solver`` may; whether it is proved best."""

    def better(at: Any) -> Message | None:
        if at.objective_value >= program.best:
            return None
        program.best = at.objective_value
        program.placed = program.where(at.boolean_value)
        return {"where": program.placed}

    status = minimise(solver, program.model, send, better, lambda bound: math.floor(bound + 1e-6) / program.units_per_s)
    if program.placed:
        program.hint(program.placed)
    return status == "optimal"


def whole_bound(cp_model: Any, program: Packing) -> int:
    """Units of max-load that the program cannot go below, were all accelerators one, and all CPUs:
    the work shared equally, with the best whole super-operators on CPUs and their messages paid once."""
    given, model = program.given, cp_model.CpModel()
    count = {cpu: given["is_cpu"].count(cpu) for cpu in (False, True)}
    peak = model.new_int_var(0, program.whole(given["most_s"]), "")
    on_cpu = [model.new_bool_var("") for _ in given["seconds"]]
    busy: dict[bool, list[Any]] = {False: [], True: []}
    for here, row in zip(on_cpu, given["seconds"], strict=True):
        for cpu, literal in ((True, here), (False, here.negated())):
            least = min(
                (s for s, c in zip(row, given["is_cpu"], strict=True) if s is not None and c == cpu), default=None
            )
            if least is None:
                model.add(literal == 0)
            else:
                busy[cpu].append(program.whole(least) * literal)
    for pins, seconds in [] if given["lane"] or not count[True] else given["nets"]:
        cut = model.new_bool_var("")
        for a, b in zip(pins, pins[1:] + pins[:1], strict=True):
            model.add_bool_or(on_cpu[a].negated(), on_cpu[b], cut)
        busy[False].append(program.whole(seconds) * cut)
    for cpu, terms in busy.items():
        model.add(sum(terms) <= count[cpu] * peak)
    model.minimize(peak)
    solver = cp_solver(given["workers"], 0)
    if given["work"] is None:
        solver.parameters.max_time_in_seconds = FIRST_SLICE_S
    else:
        solver.parameters.max_deterministic_time = FIRST_SLICE_S
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return 0
    return max(0, math.floor(float(solver.best_objective_bound) + 1e-6))


def renamed(where: list[int], alike: list[list[int]], seconds: list[list[float | None]]) -> list[int]:
    """The same placement with exchangeable devices numbered as the program wants them: in the order
    of the heaviest super-operator on each."""
    new = new_numbers(where, heaviest(seconds), alike)
    return [new.get(device, device) for device in where]


def heaviest(seconds: list[list[float | None]]) -> list[int]:
    """Super-operators, those that take longest on some device first."""
    longest = [max((s for s in row if s is not None), default=0.0) for row in seconds]
    return sorted(range(len(seconds)), key=lambda v: -longest[v])


class Packing:
    """The constraint program; see the module and `run` for its meaning and input."""

    def __init__(self, cp_model: Any, given: Message) -> None:
        self.given = given
        self.model = cp_model.CpModel()
        self.units_per_s: float = SCALE / given["most_s"]
        self.best = math.inf
        self.placed: list[int] = []
        self.cuts: list[tuple[Any, list[int], int]] = []
        self._place()
        self._memory()
        self._loads()
        self.model.minimize(self.peak)

    def hint(self, where: list[int]) -> None:
        """Begin from a placement; every variable has a hint, as a solver does little with a part."""
        model = self.model
        model.clear_hints()
        for row, device in zip(self.at, where, strict=True):
            for d, here in row.items():
                model.add_hint(here, d == device)
        for cut, pins, d in self.cuts:
            model.add_hint(cut, 0 < sum(where[v] == d for v in pins) < len(pins))
        model.add_hint(self.peak, self.whole(self.given["most_s"]) if math.isinf(self.best) else round(self.best))

    def where(self, value: Callable[[Any], bool]) -> list[int]:
        """The device of every super-operator in a solution."""
        return [next(d for d, here in row.items() if value(here)) for row in self.at]

    def whole(self, seconds: float) -> int:
        """Seconds in integer units, rounded down."""
        return math.floor(seconds * self.units_per_s)

    def _place(self) -> None:
        """at[v][d]: super-operator v on device d, where it can run."""
        model = self.model
        self.at: list[dict[int, Any]] = []
        for row in self.given["seconds"]:
            self.at.append({d: model.new_bool_var("") for d, s in enumerate(row) if s is not None})
            model.add_exactly_one(self.at[-1].values())
        order = heaviest(self.given["seconds"])
        for devices in self.given["alike"]:
            for rank, v in enumerate(order[: len(devices) - 1]):
                for d in devices[rank + 1 :]:
                    if d in self.at[v]:
                        model.add(self.at[v][d] == 0)

    def _memory(self) -> None:
        for d, cap in enumerate(self.given["cap"]):
            if cap is None:
                continue
            share = [math.floor(nbytes / cap * MEMORY_SCALE) if cap > 0 else 0 for nbytes in self.given["held"]]
            held = [share[v] * row[d] for v, row in enumerate(self.at) if d in row and share[v]]
            if held:
                self.model.add(sum(held) <= MEMORY_SCALE)

    def _cut(self, pins: list[int], d: int) -> Any:
        """A literal that is true if device d holds some but not all of the pins, or 0."""
        model = self.model
        on = [self.at[v].get(d) for v in pins]
        inside = [here for here in on if here is not None]
        if not inside:
            return 0
        cut = model.new_bool_var("")
        self.cuts.append((cut, pins, d))
        if len(inside) < len(on):
            for here in inside:
                model.add_implication(here, cut)
        else:  # once round the pins: from one that is there to the next that is not
            for here, there in zip(inside, inside[1:] + inside[:1], strict=True):
                model.add_bool_or(here.negated(), there, cut)
        return cut

    def _loads(self) -> None:
        model, given = self.model, self.given
        most = self.whole(given["most_s"])
        self.peak = model.new_int_var(max(0, self.whole(given["least_s"]) - 1 - self._lost()), most, "")
        loads = []
        for d, is_cpu in enumerate(given["is_cpu"]):
            work = [(self.whole(given["seconds"][v][d]), row[d]) for v, row in enumerate(self.at) if d in row]
            sent = [] if is_cpu else [(self.whole(s), self._cut(pins, d)) for pins, s in given["nets"]]
            parts = [work, sent] if given["lane"] else [work + sent]
            for part in parts:
                model.add(sum(units * literal for units, literal in part if units) <= self.peak)
                loads.append((d, part))

    def _lost(self) -> int:
        """Units that rounding down takes from a load at most."""
        return len(self.at) + len(self.given["nets"])
