"""The cheapest way to divide every call of a model over a group: an integer program over the calls' options.

x[call, option] chooses; y[reader, made, needed] is the change of placement between a value and one of its readers; z
[value, made, needed] is 1 where any reader needs it, for a value is exchanged once for all that need it alike. The sum
of seconds is minimised: of the calls at their divided shapes, forward and backward, and of what is exchanged. Programs
of this kind: AutoParallel (meta-pytorch), Alpa (Zheng et al., OSDI 2022, section 4.2).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from explorer.tracing.sharding.choices import (
    ALL_REDUCE,
    PARTIAL,
    ROW_BYTES,
    SHARED,
    WHOLE,
    Choices,
    Collective,
    Option,
    State,
    change,
    partial_gradients,
    replica_sums,
)
from explorer.tracing.sharding.ring import GOES_ROUND, ring_bytes, times_back
from solvers.errors import PlacementError
from solvers.programs.background import Background
from solvers.programs.integer_program import Model

UNIT_S = 1e-6
"""Seconds of one unit of the program: solvers decide by absolute tolerances."""
LISTEN_EVERY_S = 0.02

Exchanged = tuple[str, State, State, bool]
"""A value, what it was made as and what it is exchanged into, and whether that is the backward's."""
Labels = Mapping[int, Option]
"""Of every call that computes, by its position in the captured graph."""


@dataclass(frozen=True, slots=True)
class GroupLink:
    """What members of a group exchange their parts over: each sends to the next of a ring."""

    bandwidth_bytes_per_s: float
    latency_s: float

    def seconds(self, collective: Collective, nbytes: float, degree: int) -> float:
        return self.exchange_s(collective.sent_bytes(nbytes, degree), collective.steps(degree))

    def exchange_s(self, sent_bytes: float, steps: int) -> float:
        """Of so many bytes that each member sends, in messages one after the other."""
        return steps * self.latency_s + sent_bytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class Prices:
    """seconds: of every option of every call, forward and backward together, at its divided shape. link: of the group.
    passes: micro-batches of an iteration, over which gradients of whole parameters are added up before members
    exchange them once. trains: whether there is a backward."""

    seconds: Mapping[int, Sequence[float]]
    link: GroupLink
    passes: int
    trains: bool


@dataclass(frozen=True, slots=True)
class Held:
    """nbytes: what each option of each call has a member hold. most_bytes: of all calls together."""

    nbytes: Mapping[int, Sequence[float]]
    most_bytes: float

    def limit(self, model: Model, x: Mapping[int, Sequence[int]]) -> None:
        unit = max(self.most_bytes, 1.0)
        terms = [(v, b / unit) for at, variables in x.items() for v, b in zip(variables, self.nbytes[at], strict=True)]
        model.row([(variable, share) for variable, share in terms if share], 0.0, self.most_bytes / unit)

    def of(self, choices: Choices, labels: Labels) -> float:
        return sum(self.nbytes[at][choices.options[at].index(option)] for at, option in labels.items())


@dataclass(frozen=True, slots=True)
class Division:
    """labels: the cheapest. cost_s: their seconds. bound_s: none have fewer. variables, runtime_s: of the program."""

    labels: Labels
    cost_s: float
    bound_s: float
    variables: int
    runtime_s: float


def cost_s(choices: Choices, prices: Prices, labels: Labels) -> float:
    """Seconds of any labels: what the program minimises, counted again."""
    total = sum(prices.seconds[at][choices.options[at].index(option)] for at, option in labels.items())
    exchanged: dict[Exchanged, float] = {}
    for at, option in labels.items():
        total += _within_s(choices, prices, at, option)
        for (_, name), needed in zip(choices.captured.nodes[at].tensors, option.inputs, strict=True):
            source = choices.source(name)
            if not _is_held(choices, source):
                made, of_source = _made(choices, labels, source), choices.of_source(name, needed)
                exchanged.update(_changes_s(choices, prices, source, made, of_source))
    return total + sum(exchanged.values())


def _made(choices: Choices, labels: Labels, source: str) -> State:
    at = choices.made_by.get(source)
    if at is None or at not in labels:
        return WHOLE
    return labels[at].outputs[choices.captured.nodes[at].outputs.index(source)]


def _is_held(choices: Choices, source: str) -> bool:
    """A parameter or buffer: divided where its reader needs it so, once and for all."""
    return source in choices.captured.parameters or source in choices.captured.buffers


def _changes_s(choices: Choices, prices: Prices, source: str, made: State, needed: State) -> dict[Exchanged, float]:
    """Seconds of what a change of placement exchanges. A partial sum is added up once for all that need it whole."""
    value = choices.captured.values[source]
    forward, backward = change(made, needed)
    reached = WHOLE if made == PARTIAL and needed == SHARED else needed
    seconds: dict[Exchanged, float] = {}
    nbytes = value.nbytes * choices.chosen(source, made, needed)
    for each in forward:
        seconds[source, made, reached, False] = prices.link.seconds(each, nbytes, choices.degree)
    for each in backward if prices.trains and value.requires_grad else ():
        seconds[source, made, needed, True] = prices.link.seconds(each, nbytes, choices.degree)
    return seconds


def _within_s(choices: Choices, prices: Prices, at: int, option: Option) -> float:
    """What a call exchanges of itself: statistics of its rows, keys and values that go round, and once an iteration the
    gradients of parameters that all members have whole and each uses a share of the rows with."""
    captured, link = choices.captured, prices.link
    total = 0.0
    node = captured.nodes[at]
    if option.rows:
        total += link.seconds(ALL_REDUCE, 2 * ROW_BYTES * captured.values[node.tensors[1][1]].numel, choices.degree)
    if option.ring:
        times = 1 + (times_back(choices, node) if prices.trains else 0)
        total += times * link.seconds(GOES_ROUND, ring_bytes(choices, node, captured), choices.degree)
    sources = dict.fromkeys(choices.source(name) for name in partial_gradients(choices, node, option))
    nbytes = sum(captured.values[name].nbytes for name in sources)
    if nbytes and prices.trains:
        total += link.seconds(ALL_REDUCE, nbytes, choices.degree) / prices.passes
    if choices.redundant and prices.trains:
        total += link.exchange_s(*replica_sums(choices, node, option)[1:]) / prices.passes
    return total


def cheapest(
    choices: Choices,
    prices: Prices,
    check: Callable[[], None] = lambda: None,
    limit_s: float = 60.0,
    held: Held | None = None,
) -> Division:
    """Solve the program with HiGHS. check: called often; raises to stop. limit_s: then the best labels so far are
    taken; the bound says how far they may be from the best. held: what a member may hold at most. Raises PlacementError
    where the solver fails, or nothing holds so little."""
    began = time.monotonic()
    model, x = _program(choices, prices)
    if held is not None:
        held.limit(model, x)
    values: Sequence[float] | None = None
    bound = 0.0
    payload = {"model": model.to_message(), "solver": "highs", "seed": 0, "ends_at": time.time() + limit_s}
    with Background("mip", payload) as child:
        while not child.done and (time.monotonic() - began < limit_s or values is None):
            for message in child.poll():
                if "values" in message:
                    values = message["values"]
                bound = max(bound, message.get("bound", bound))
            check()
            time.sleep(LISTEN_EVERY_S)
        error = child.error
    if values is None:
        raise PlacementError(f"the program that divides tensors ended without an answer: {error or 'no values'}")
    labels: dict[int, Option] = {}
    for at, options in choices.options.items():
        chosen = [values[variable] for variable in x[at]]
        labels[at] = options[chosen.index(max(chosen))]
    cost = cost_s(choices, prices, labels)
    return Division(labels, cost, min(cost, bound * UNIT_S), len(model), time.monotonic() - began)


def _program(choices: Choices, prices: Prices) -> tuple[Model, dict[int, list[int]]]:
    model = Model()
    x: dict[int, list[int]] = {}
    for at, options in choices.options.items():
        seconds = [s + _within_s(choices, prices, at, o) for s, o in zip(prices.seconds[at], options, strict=True)]
        x[at] = [model.variable(integer=True, cost=each / UNIT_S) for each in seconds]
        model.row([(variable, 1.0) for variable in x[at]], 1.0, 1.0)
    exchanged: dict[Exchanged, int] = {}
    held: dict[str, list[dict[object, list[int]]]] = defaultdict(list)
    for at, options in choices.options.items():
        for position, (_, name) in enumerate(choices.captured.nodes[at].tensors):
            source = choices.source(name)
            if _is_held(choices, source):
                states = [(choices.of_source(name, o.inputs[position]), o.places[position]) for o in options]
                held[source].append(_by(x[at], states))
                continue
            needed = _by(x[at], [choices.of_source(name, option.inputs[position]) for option in options])
            made = _made_by(choices, x, source)
            _changes(model, choices, prices, source, made, needed, exchanged)
    for readers in held.values():
        for one, other in pairwise(readers):
            _alike(model, one, other)
    return model, x


def _by(variables: Sequence[int], states: Sequence[object]) -> dict[object, list[int]]:
    groups: dict[object, list[int]] = defaultdict(list)
    for variable, state in zip(variables, states, strict=True):
        groups[state].append(variable)
    return groups


def _made_by(choices: Choices, x: Mapping[int, list[int]], source: str) -> dict[object, list[int]]:
    at = choices.made_by.get(source)
    if at is None or at not in x:
        return {WHOLE: []}
    place = choices.captured.nodes[at].outputs.index(source)
    return _by(x[at], [option.outputs[place] for option in choices.options[at]])


def _changes(
    model: Model,
    choices: Choices,
    prices: Prices,
    source: str,
    made: Mapping[object, list[int]],
    needed: Mapping[object, list[int]],
    exchanged: dict[Exchanged, int],
) -> None:
    """y for one reader of a value: as much leaves a state as is made in it, and comes to one as is needed in it."""
    y: dict[tuple[object, object], int] = {}
    for one, other in product(made, needed):
        assert isinstance(one, int) and isinstance(other, int)  # noqa: PT018 - of inputs and outputs, never of places
        y[one, other] = model.variable()
        for key, seconds in _changes_s(choices, prices, source, one, other).items():
            if key not in exchanged:
                exchanged[key] = model.variable(cost=seconds / UNIT_S)
            model.row([(exchanged[key], 1.0), (y[one, other], -1.0)], least=0.0)
    for one, variables in made.items():
        total = [(y[one, other], 1.0) for other in needed]
        count = 0.0 if variables else 1.0
        model.row([*total, *((variable, -1.0) for variable in variables)], count, count)
    for other, variables in needed.items():
        model.row([*((y[one, other], 1.0) for one in made), *((v, -1.0) for v in variables)], 0.0, 0.0)


def _alike(model: Model, one: Mapping[object, list[int]], other: Mapping[object, list[int]]) -> None:
    """Two readers of one parameter divide it alike."""
    for state in {*one, *other}:
        leaf = state[0] if isinstance(state, tuple) else state
        if isinstance(leaf, int) and leaf >= 0:
            terms = [*((v, 1.0) for v in one.get(state, ())), *((v, -1.0) for v in other.get(state, ()))]
            model.row(terms, 0.0, 0.0)
