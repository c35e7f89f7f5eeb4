"""Of the stages of a device: which operators keep what they save, which run again, and which send it to the host, in
the least time that fits.

An integer program, solved by HiGHS. It asks by operator what AdaPipe (Sun et al., ASPLOS 2024, section 4) asks by
layer: of a region only what comes in is kept for every micro-batch in flight, and what its cached operators make.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from solvers.pipelines.recomputation.choices import Choices, Crossing, Span
from solvers.plan.plan import Region
from solvers.programs.integer_program import Model
from solvers.programs.solve_here import solve_here

NODES = 200
"""Of HiGHS's tree, for a device: a search that is not ended by then gives its best, and its bound."""
LEAST_COPIED = 1e-5
"""Of the stages' forward time, all that is paid for copies that nobody waits for: of choices that take as long, that
which copies least."""
CLOSE = 1e-4
"""Relative gap to the bound that ends a search."""


class Chosen(NamedTuple):
    """regions, offload: of each of the stages. seconds: by which a micro-batch takes longer, for what runs again and
    where it waits for copies. bound_s: none that fits, of the regions looked at, takes less."""

    regions: tuple[tuple[Region, ...], ...]
    offload: tuple[tuple[int, ...], ...]
    seconds: float
    bound_s: float


def least_seconds(stages: Sequence[Choices], most_bytes: float) -> Chosen | None:
    """The choice that runs again for the fewest seconds while all stages of a device together hold at most
    ``most_bytes``; None if none was found."""
    program = _Program(max(most_bytes, 1.0), max(sum(float(one.seconds.sum()) for one in stages), 1e-12))
    parts = [program.stage(one) for one in stages]
    program.model.row([*program.held, (program.working, 1.0)], most=most_bytes / program.byte_scale)
    solution = solve_here(program.model, nodes=NODES, gap=CLOSE)
    if solution.values is None:
        return None
    regions = tuple(part.regions(solution.values) for part in parts)
    offload = tuple(part.offload(solution.values) for part in parts)
    seconds = sum(part.seconds(solution.values) for part in parts)
    bound = (solution.bound - LEAST_COPIED) * program.second_scale
    return Chosen(regions, offload, seconds, min(max(bound, 0.0), seconds))


class _Program:
    """byte_scale, second_scale: what is 1 in the program."""

    def __init__(self, byte_scale: float, second_scale: float) -> None:
        self.byte_scale, self.second_scale = byte_scale, second_scale
        self.model = Model()
        self.held: list[tuple[int, float]] = []
        self.working = self.model.variable(upper=math.inf)
        self.one = self.model.variable(1.0, 1.0)

    def stage(self, choices: Choices) -> _Part:
        model = self.model
        spans = [model.binary() for _ in choices.spans]
        segments = max(choices.segment, default=-1) + 1
        covering: list[list[int]] = [[] for _ in range(segments)]
        for span, variable in zip(choices.spans, spans, strict=True):
            for segment in range(span.first, span.last + 1):
                covering[segment].append(variable)
        inside = [model.variable() for _ in range(segments)]
        for variable, over in zip(inside, covering, strict=True):
            model.row([*((v, 1.0) for v in over), (variable, -1.0)], 0.0, 0.0)
        runs = [model.binary() for _ in choices.operators]
        part = _Part(choices, spans, inside, runs, self._hosts(choices, inside))
        for at, run in enumerate(runs):
            model.cost[run] = float(choices.seconds[at]) / self.second_scale
            model.row([(run, 1.0), (inside[choices.segment[at]], -1.0)], most=0.0)
        for span, variable in zip(choices.spans, spans, strict=True):  # a region in which nothing runs again is none
            model.row([(variable, 1.0), *((runs[at], -1.0) for at in choices.inside(span))], most=0.0)
        flights = choices.in_flight / self.byte_scale
        self.held.append((self.one, choices.all_saved_bytes * flights))
        for segment, variable in enumerate(inside):
            saved = sum(float(choices.saved_bytes[at]) for at, s in enumerate(choices.segment) if s == segment)
            self.held.append((variable, -saved * flights))
        for crossing in choices.crossings:
            if (is_saved := self._saved_tensor(part, crossing)) is not None:
                self.held.append((is_saved, crossing.nbytes * flights))
                if crossing.saver >= 0:
                    part.there.append((choices.segment[crossing.saver], is_saved, crossing.nbytes))
        self._working(part)
        return part

    def _hosts(self, choices: Choices, inside: list[int]) -> list[int]:
        """Of each operator whether what it saves goes to the host: then it is in no region. Copies take their turn on
        one lane each way: how long they are decides how many micro-batches are there meanwhile, and what is waited
        for them."""
        model, hosting = self.model, choices.hosting
        if hosting is None or not hosting.resident or not choices.saved_bytes.any():
            return []
        hosts = [model.binary(allowed=bool(nbytes > 0)) for nbytes in choices.saved_bytes]
        copied = choices.saved_bytes / hosting.bytes_per_s / self.second_scale
        for at, host in enumerate(hosts):
            model.row([(host, 1.0), (inside[choices.segment[at]], 1.0)], most=1.0)
            model.cost[host] = LEAST_COPIED * float(copied[at] / copied.sum())
        for crossing in choices.crossings:  # what a region reads is not sent
            for segment in {choices.segment[reader] for reader in crossing.readers if crossing.saver >= 0}:
                model.row([(hosts[crossing.saver], 1.0), (inside[segment], 1.0)], most=1.0)
        lane = [(host, float(each)) for host, each in zip(hosts, copied, strict=True)]
        cases = []
        for seconds, resident in hosting.resident:  # one of these holds, and its part is all that is copied
            most = min(seconds / self.second_scale, float(copied.sum()))
            case, part = model.binary(), model.variable(upper=most)
            cases.append((case, part))
            model.row([(part, 1.0), (case, -most)], most=0.0)
            nbytes = hosting.bytes_per_s * self.second_scale / self.byte_scale
            self.held.append((part, -(choices.in_flight - resident) * nbytes))
        model.row([(case, 1.0) for case, _ in cases], most=1.0)
        model.row([*lane, *((part, -1.0) for _, part in cases)], 0.0, 0.0)
        for seconds, share in hosting.windows:
            waits = model.variable(upper=math.inf, cost=share)
            model.row([*lane, (waits, -1.0)], most=seconds / self.second_scale)
        return hosts

    def _saved_tensor(self, part: _Part, crossing: Crossing) -> int | None:
        """The variable that is 1 if regions keep a tensor, as `solvers.problem.regions` says; None if never."""
        model, choices, made = self.model, part.choices, crossing.producer
        rows: list[tuple[list[tuple[int, float]], float]] = []  # is_saved is at least the terms and the number
        own = -1 if made < 0 else choices.segment[made]
        if made >= 0:
            rows.append(([(part.inside[own], 1.0), (part.runs[made], -1.0)], 0.0))  # cached
        segments = sorted({choices.segment[reader] for reader in crossing.readers})
        for segment in segments:
            if segment != own:
                both = [] if made < 0 else [(v, -1.0) for v in part.over(own, segment)]
                rows.append(([(part.inside[segment], 1.0), *both], 0.0))
        if made >= 0:
            saves = choices.saved_bytes >= crossing.nbytes
            out = [s for s in segments if s != own]
            known = crossing.saver >= 0
            if known or saves[made] or any(saves[reader] for reader in crossing.readers):
                keeper = [] if known or saves[made] else [choices.segment[r] for r in crossing.readers if saves[r]]
                for first in sorted(set(keeper)) or [own]:
                    near = [] if first == own else [(part.inside[first], 1.0)]
                    base = 0.0 if first == own else -1.0
                    if crossing.outside:
                        rows.append(([(part.runs[made], 1.0), *near], base))
                    rows += [([(part.runs[made], 1.0), *near, (part.inside[s], -1.0)], base) for s in out if s != first]
        if not rows:
            return None
        is_saved = model.variable()
        saver = [] if crossing.saver < 0 else [(part.inside[choices.segment[crossing.saver]], -1.0)]
        for terms, number in rows:  # what an operator in no region saves is none of it
            needed = [(is_saved, 1.0), *((v, -weight) for v, weight in terms)]
            model.row([*needed, *saver], least=number - bool(saver))
        return is_saved

    def _working(self, part: _Part) -> None:
        """At least what the hungriest forward or backward needs while it runs."""
        model, choices, scale = self.model, part.choices, self.byte_scale
        model.row([(self.working, 1.0)], least=float(choices.forward_working.max(initial=0.0)) / scale)
        for segment, variable in enumerate(part.inside):
            needs = max(float(choices.backward_working[at]) for at, s in enumerate(choices.segment) if s == segment)
            model.row([(self.working, 1.0), (variable, needs / scale)], least=needs / scale)
        for span, variable in zip(choices.spans, part.spans, strict=True):
            room, most = span.room_bytes / scale, span.working_bytes
            there = [(v, nbytes / scale) for at, v, nbytes in part.there if span.first <= at <= span.last]
            model.row([(self.working, 1.0), (variable, -room - most / scale), *there], least=0.0)
            for at in choices.inside(span):
                more = (float(choices.forward_working[at]) - most) / scale
                if more > 0:  # it needs more when it runs again
                    model.row(
                        [
                            (self.working, 1.0), (variable, -room - most / scale - more), (part.runs[at], -more),
                            *there,
                        ],
                        -more,
                    )  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """The variables of a stage: of each span whether it is a region, of each segment whether it is in one, of each
    operator whether it runs again, and, where that may be, whether it offloads what it saves."""

    choices: Choices
    spans: list[int]
    inside: list[int]
    runs: list[int]
    hosts: list[int]
    there: list[tuple[int, int, float]] = field(default_factory=list)
    """(segment of the operator that saves it, whether regions keep it, B) of tensors: what is kept needs no room."""

    def over(self, first: int, second: int) -> list[int]:
        """Those of spans that have both segments."""
        return [
            variable
            for span, variable in zip(self.choices.spans, self.spans, strict=True)
            if span.first <= min(first, second) and max(first, second) <= span.last
        ]

    def regions(self, values: Sequence[float]) -> tuple[Region, ...]:
        chosen = [s for s, variable in zip(self.choices.spans, self.spans, strict=True) if values[variable] > 0.5]
        return tuple(self._region(span, values) for span in chosen)

    def _region(self, span: Span, values: Sequence[float]) -> Region:
        inside = self.choices.inside(span)
        cached = [at for at in inside if values[self.runs[at]] < 0.5]
        return Region(*(tuple(self.choices.operators[at] for at in some) for some in (inside, cached)))

    def offload(self, values: Sequence[float]) -> tuple[int, ...]:
        return tuple(self.choices.operators[at] for at, host in enumerate(self.hosts) if values[host] > 0.5)

    def seconds(self, values: Sequence[float]) -> float:
        again = float(sum(self.choices.seconds[at] for at, run in enumerate(self.runs) if values[run] > 0.5))
        hosting = self.choices.hosting
        if hosting is None or not self.hosts:
            return again
        sent = sum(self.choices.saved_bytes[at] for at, host in enumerate(self.hosts) if values[host] > 0.5)
        return again + hosting.waits_s(float(sent) / hosting.bytes_per_s)
