"""Does a divided graph exchange and hold what its placements require? Derived again from the placements alone.

Every call must be one that its operator allows (`placements`); a tensor has one placement, which the call that makes it
and all that read it agree on, so that what changes placements must be there; and what the graph's operators exchange,
hold and compute follows from shapes, placements and ring collectives (Patarasuk and Yuan, 2009). How calls were divided
is not known here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from solvers.problem.collectives import BESIDE, PARTIAL, UNSUMMED, WHOLE, DividedCall, DividedTensor, Division
from solvers.problem.graph import CACHED_ATTENTION, Operator, OpGraph, Phase
from solvers.verify.across import carried, held
from solvers.verify.placements import Call, digit_of, digits_of, outputs_of, repeats
from solvers.verify.routing import ROUTED, routes_of
from solvers.verify.tokens import ATTENTION, along_tokens, goes_round

MOST = 10
CLOSE = 1e-6
"""Relative: bytes are written as a line through two batches."""
UNCACHED = "aten.scaled_dot_product_attention"
"""What the calls are of an operator of attention to a KV cache."""
STATISTIC_BYTES = 8.0
"""Of a row whose classes are divided: the largest score and the sum of exponentials, fp32."""
BYTE = 0.99
"""A tracer's shares of bytes are whole numbers, rounded down."""
EXACT = 1e-9
PRODUCTS = frozenset(f"aten.{name}" for name in ("linear", "mm", "bmm", "matmul", "conv1d", "conv2d", "conv3d"))
"""Calls whose first two tensors are multiplied."""
GROUPED = ("aten._grouped_mm", "transformers.grouped_mm_fallback")
EXCHANGE, REGROUP = "collective.", "regroup"
REDUCE, GATHER, SCATTER, ALL_TO_ALL = "all_reduce", "all_gather", "reduce_scatter", "all_to_all"
RING = "ring"
CALLED = {
    ("all_reduce",): (REDUCE, ""),
    ("copy",): ("", REDUCE),
    ("slice",): ("", GATHER),
    ("all_gather",): (GATHER, SCATTER),
    ("reduce_scatter",): (SCATTER, GATHER),
    ("all_to_all",): (ALL_TO_ALL, ALL_TO_ALL),
}
"""By what an operator is called: what it may exchange in the forward, and in the backward."""


@dataclass(slots=True)
class Sent:
    """Bytes at two batches, and messages one after the other."""

    nbytes: list[float] = field(default_factory=lambda: [0.0, 0.0])
    steps: int = 0

    def add(self, kind: str, sizes: Sequence[float], members: int) -> None:
        if not kind:
            return
        share = (members - 1) / members
        factor = {REDUCE: 2 * share, ALL_TO_ALL: share / members}.get(kind, share)
        self.nbytes = [sent + factor * size for sent, size in zip(self.nbytes, sizes, strict=True)]
        self.steps += (members - 1) * (2 if kind == REDUCE else 1)


@dataclass
class _Derived:
    """What follows from the placements of a graph. forward, backward, update: by forward operator. held: bytes of the
    parameters of which it is the first reader; products: operations. routes: what integers say of rows that are sorted
    by expert, by tensor. degree: members of a group; exchange: how the types of calls begin that change a placement.
    inner: of a division among inner groups, that over the members of each; outer: the other way round."""

    graph: OpGraph
    division: Division
    degree: int
    exchange: str = EXCHANGE
    inner: _Derived | None = None
    outer: _Derived | None = None
    findings: list[str] = field(default_factory=list)
    forward: dict[int, Sent] = field(default_factory=lambda: defaultdict(Sent))
    backward: dict[int, Sent] = field(default_factory=lambda: defaultdict(Sent))
    update: dict[int, Sent] = field(default_factory=lambda: defaultdict(Sent))
    held: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    products: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    makes: dict[int, set[float]] = field(default_factory=lambda: defaultdict(set))
    routes: dict[int, str] = field(default_factory=dict)

    def members(self, of: DividedTensor | DividedCall) -> int:
        return of.members or self.degree

    def changes(self, call: DividedCall) -> bool:
        """Whether a call changes a placement."""
        return call.target.startswith(self.exchange) and "." not in call.target.removeprefix(self.exchange)

    def of_member(self, call: DividedCall, argument: int) -> float:
        """Which part of an argument of a call of an inner group each member of it has."""
        if self.inner is None:
            return 1.0
        return self.inner.part_of(self.division.tensors[call.outputs[0]].name, argument)

    def part_of(self, output: str, argument: int) -> float:
        """Which part of its argument a member has, of the call that makes an output."""
        return self.part(self.division.tensors[self.makers[output].inputs[argument]])

    def part(self, tensor: DividedTensor) -> float:
        """Which part of a tensor a member has."""
        digit = digit_of(tensor.placement, tensor.shape, self.degree)
        if digit is not None and digit.slots:
            return digit.slots / tensor.shape[digit.dim]
        return 1.0 if digit is None else 1 / self.degree

    @cached_property
    def makers(self) -> Mapping[str, DividedCall]:
        """The call that makes a tensor, by its name."""
        tensors = self.division.tensors
        return {tensors[output].name: call for call in self.division.calls for output in call.outputs}

    @cached_property
    def named(self) -> Mapping[str, DividedTensor]:
        return {tensor.name: tensor for tensor in self.division.tensors}

    def tensors(self, numbers: Sequence[int]) -> list[DividedTensor]:
        return [self.division.tensors[number] for number in numbers]

    def whole_bytes(self, tensor: DividedTensor) -> list[float]:
        """At the batch of the graph, and at twice that."""
        entries = math.prod(tensor.shape)
        return [entries * tensor.item_bytes, (entries + tensor.grows * self.graph.samples) * tensor.item_bytes]

    def bytes_of_member(self, tensor: DividedTensor) -> list[float]:
        """What a member has of a tensor, at both batches: its share, and whole rows of experts that are chosen more."""
        members, sizes = self.members(tensor), self.whole_bytes(tensor)
        digit = digit_of(tensor.placement, tensor.shape, members)
        if digit is None:
            return sizes
        if digit.slots:
            return [size / tensor.shape[digit.dim] * digit.slots for size in sizes]
        if not digit.experts:
            return [size / members for size in sizes]
        row = math.prod(tensor.shape) // tensor.shape[digit.dim] * tensor.item_bytes
        return [math.ceil(size / row * self.division.load / members) * row for size in sizes]

    def more(self, *tensors: DividedTensor) -> float:
        """By how much more than its share of a tensor a member sends, where it goes by expert."""
        digits = [digit_of(each.placement, each.shape, self.members(each)) for each in tensors]
        if any(digit is not None and digit.experts for digit in digits):
            return self.division.load
        held = (self.bytes_of_member(each)[0] * self.members(each) / self.whole_bytes(each)[0] for each in tensors)
        return max(more for more, digit in zip(held, digits, strict=True)) if any(d.slots for d in digits if d) else 1.0


def division(graph: OpGraph) -> tuple[str, ...]:
    """What is wrong with how a graph is divided, a sentence each, at most MOST; nothing where it states nothing."""
    if graph.division is None:
        return ()
    derived = _Derived(graph, graph.division, graph.tensor_parallel // graph.outer_degree)
    if (outer := graph.division.outer) is not None:
        along = f"{EXCHANGE}{outer.axis.value}."
        derived.outer = _Derived(graph, outer, graph.outer_degree, along, inner=derived)
    elif graph.outer_degree > 1:
        return ("division: how the model is divided among inner groups is not stated",)
    try:
        derived.findings += _placed(derived)
        derived.findings += _replicated(derived)
        derived.findings += _exchanged(derived)
        if derived.outer is not None:
            derived.findings += _placed(derived.outer)
            derived.findings += _replicated(derived.outer)
            derived.findings += _exchanged(derived.outer)
            derived.findings += _within(derived.outer, derived)
        derived.findings += _held(derived)
        derived.findings += _computed(derived)
        derived.findings += _saved(derived)
    except ValueError as error:
        derived.findings.append(f"division: {error}")
    except (IndexError, KeyError, ZeroDivisionError):
        derived.findings.append("division: a call lacks tensors or arguments that calls of its kind have")
    return tuple(derived.findings[:MOST])


def _placed(derived: _Derived) -> Iterator[str]:
    """Calls that their operators do not allow, and tensors that are read as they are not."""
    division = derived.division
    made = _from_outside(division)
    for number in made:
        tensor = division.tensors[number]
        digit_of(tensor.placement, tensor.shape, derived.members(tensor))
        if tensor.placement in (PARTIAL, UNSUMMED):
            yield f"division: {tensor.name!r} comes from outside and is placed {tensor.placement}"
    held = {number for number in made if division.tensors[number].parameter}
    first: dict[int, int] = {}
    readers: dict[int, set[int]] = defaultdict(set)
    partial: set[int] = set()
    source: dict[int, int] = {}
    for call in division.calls:
        if not set(call.inputs) <= made:
            yield f"division: {call.target} reads what nothing has made before it"
        if made & set(call.outputs):
            yield f"division: {call.target} makes a tensor that is there already"
        made |= set(call.outputs)
        if call.inputs and call.inputs[0] in held and _is_look(derived, call):
            held |= set(call.outputs)
            owner = source.get(call.inputs[0], call.inputs[0])
            source.update(dict.fromkeys(call.outputs, owner))
            if _is_divided(derived, call) and division.tensors[call.inputs[0]].placement == WHOLE:
                partial.add(owner)  # repeated, as often as a member's share has it
        yield from _called(derived, call, held)
        if call.operator is None:
            continue
        for number in call.inputs:
            if number in held:
                owner = source.get(number, number)
                first.setdefault(owner, call.operator)
                readers[owner].add(derived.members(call))
                if _is_divided(derived, call) and division.tensors[number].placement == WHOLE:
                    partial.add(owner)
        derived.makes[call.operator] |= {derived.bytes_of_member(tensor)[0] for tensor in derived.tensors(call.outputs)}
    for number, tensor in enumerate(derived.tensors(division.outputs)):
        if tensor.placement != WHOLE:
            yield f"division: output {number} of the model is {tensor.placement}, not whole at every member"
    for number, operator in first.items():
        tensor = division.tensors[number]
        derived.held[operator] += derived.bytes_of_member(tensor)[0]
        if number in partial and tensor.differentiable:
            members = max(readers[number])
            part = 1.0 if derived.inner is None else derived.inner.part(derived.inner.named[tensor.name])
            derived.update[operator].add(REDUCE, [part * derived.whole_bytes(tensor)[0]] * 2, members)
            derived.update[operator].steps = 2 * (members - 1)
        if tensor.parameter and len(readers[number]) > 1:
            yield f"division: groups of different sizes read {tensor.name!r}"
    for number, operator in first.items():
        tensor = division.tensors[number]
        digit = digit_of(tensor.placement, tensor.shape, derived.members(tensor))
        if digit is not None and digit.slots and division.redundant and tensor.differentiable:
            _added_up(derived, operator, tensor, digit.slots)


def _replicated(derived: _Derived) -> Iterator[str]:
    """Experts that are divided otherwise than with as many replicas as are stated, or that are not parameters."""
    division, members = derived.division, derived.degree
    of_parameters = {at for at in _from_outside(division) if division.tensors[at].parameter}
    for call in division.calls:
        if call.inputs and of_parameters.issuperset(call.inputs):
            of_parameters |= set(call.outputs)
        inputs = derived.tensors(call.inputs)
        digits = [digit_of(one.placement, one.shape, derived.members(one)) for one in inputs]
        rows = any(digit is not None and digit.experts for digit in digits)
        for number, tensor, digit in zip(call.inputs, inputs, digits, strict=True):
            if digit is None or digit.experts or not (digit.slots or rows):
                continue
            wanted = tensor.shape[digit.dim] + division.redundant if division.redundant else 0
            if digit.slots * members != wanted or (digit.slots and number not in of_parameters):
                yield (
                    f"division: {tensor.name!r} is placed {tensor.placement} over {members} members, with"
                    f" {division.redundant} redundant experts"
                )


def _added_up(derived: _Derived, operator: int, tensor: DividedTensor, slots: int) -> None:
    """What members send to add up the gradients of replicas: at most that of a ring over the holders of each expert of
    one, 2(r-1)/r of r of them, where all replicas beyond the first are of its experts, evenly."""
    redundant = derived.division.redundant
    replicated = min(slots, redundant)
    holders = 1 + redundant / replicated
    each = derived.bytes_of_member(tensor)[0] / slots
    part = 1.0 if derived.inner is None else derived.inner.part(derived.inner.named[tensor.name])
    sent = derived.update[operator]
    sent.nbytes = [nbytes + part * replicated * 2 * (holders - 1) / holders * each for nbytes in sent.nbytes]
    sent.steps += 2 * redundant


def _from_outside(division: Division) -> set[int]:
    """Tensors that no call makes: parameters, buffers, what the model is given."""
    return set(range(len(division.tensors))) - {number for call in division.calls for number in call.outputs}


def _is_divided(derived: _Derived, call: DividedCall) -> bool:
    shares = [tensor.placement for tensor in derived.tensors((*call.inputs, *call.outputs))]
    return any(placement not in (WHOLE, UNSUMMED) for placement in shares)


def _is_look(derived: _Derived, call: DividedCall) -> bool:
    """Whether a call of a parameter only looks at it: it is part of no operator, or of its reader's."""
    return not derived.changes(call) and len(call.inputs) == 1 and call.operator is None


def _called(derived: _Derived, call: DividedCall, held: set[int]) -> Iterator[str]:
    """One call: whether it is allowed, and what it exchanges and computes."""
    inputs, outputs = derived.tensors(call.inputs), derived.tensors(call.outputs)
    where = f"division: {call.target} of {_name(derived, call)}"
    if derived.changes(call):
        derived.routes |= {number: derived.routes.get(call.inputs[0], "") for number in call.outputs}
        yield from _change(derived, call, where)
        return
    members = derived.members(call)
    if not any(one.differentiable for one in (*inputs[:1], *outputs)):
        of_input = {name: derived.routes.get(at, "") for name, at in zip(call.arguments, call.inputs, strict=True)}
        derived.routes |= dict(zip(call.outputs, routes_of(call.target, of_input, len(outputs)), strict=True))
    if any(one.members not in (0, call.members) for one in (*inputs, *outputs)):
        yield f"{where}: some of its tensors are of a group of another size"
    if call.target.startswith(EXCHANGE):
        yield from _across(derived, call, where)
        return
    placements, stated = [one.placement for one in inputs], [one.placement for one in outputs]
    gradients = [
        one for number, one in zip(call.inputs, inputs, strict=True) if one.differentiable and number not in held
    ]
    if not _is_divided(derived, call):
        mixed = {one.placement for one in gradients} | {one.placement for one in outputs if one.differentiable}
        if len(mixed) > 1:
            yield f"{where}: of its tensors some have whole gradients and others parts of sums"
    else:
        shapes = tuple(one.shape for one in inputs), tuple(one.shape for one in outputs)
        routes = tuple(derived.routes.get(number, "") for number in call.inputs)
        judged = Call(call.target, members, call.arguments, *shapes, call.integers, routes)
        allowed = _allowed(judged, placements)
        attended = along_tokens(judged, placements) if allowed is None else None
        if attended is not None and [attended[0]] == stated:
            if attended[1]:
                _goes_round(derived, call)
        elif repeats(judged, placements[0], stated[0]):
            pass
        elif allowed is None or allowed[0] != stated:
            read = ", ".join(f"{name} {each}" for name, each in zip(call.arguments, placements, strict=True))
            yield f"{where} does not make {', '.join(stated)} of {read}"
        elif allowed[1] and call.operator is not None:
            each = STATISTIC_BYTES / inputs[1].item_bytes * derived.of_member(call, 1)
            rows = [size * each for size in derived.whole_bytes(inputs[1])]
            derived.forward[call.operator].add(REDUCE, rows, members)
        unsummed = [one for one in gradients if one.placement == WHOLE]
        if unsummed and any(one.differentiable for one in outputs):
            yield f"{where}: nobody adds up the gradients of {unsummed[0].name!r}, of which every member has a part"
    if call.operator is not None:
        derived.products[call.operator] += _operations(derived, call, inputs, outputs)


def _goes_round(derived: _Derived, call: DividedCall) -> None:
    """Keys and values that every member sends to the next, one share a message."""
    tensors, times = goes_round(derived.division, call)
    members = derived.members(call)
    part = derived.of_member(call, call.arguments.index("key"))
    sizes = [part * sum(each) for each in zip(*map(derived.whole_bytes, tensors), strict=True)]
    if call.operator is not None:
        derived.forward[call.operator].add(RING, sizes, members)
        for _ in range(times):
            derived.backward[call.operator].add(RING, sizes, members)


def _allowed(call: Call, placements: Sequence[str]) -> tuple[list[str], bool] | None:
    """As `outputs_of`, of calls that work on rows sorted by expert, too."""
    if call.target not in ROUTED:
        return outputs_of(call, placements)
    routed = None if PARTIAL in placements else ROUTED[call.target](call, digits_of(call, placements))
    return None if routed is None else (routed, False)


def _name(derived: _Derived, call: DividedCall) -> str:
    return "the model" if call.operator is None else repr(derived.graph.operators[call.operator].name)


def _operations(
    derived: _Derived, call: DividedCall, inputs: Sequence[DividedTensor], outputs: Sequence[DividedTensor]
) -> float:
    """Of a product, or attention, a member's share; of others none are stated here."""
    if call.target == ATTENTION:
        read = dict(zip(call.arguments, (one.shape for one in inputs), strict=True))
        query, key, value = (read[name] for name in ("query", "key", "value"))
        whole = 2.0 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
        return whole / derived.members(call) if _is_divided(derived, call) else whole
    if call.target not in ("aten.linear", "aten.mm", "aten.bmm", "aten.matmul", *GROUPED) or len(outputs) != 1:
        return 0.0
    if call.target == "aten.matmul" and len(inputs[1].shape) < 2:
        return 0.0
    whole = 2.0 * math.prod(outputs[0].shape) * inputs[0].shape[-1]
    return whole / derived.members(call) if _is_divided(derived, call) else whole


def _change(derived: _Derived, call: DividedCall, where: str) -> Iterator[str]:
    """A change of placement, and its mirror image for the gradient."""
    (before,), (after,) = derived.tensors(call.inputs), derived.tensors(call.outputs)
    if call.operator is None or before.shape != after.shape:
        yield f"{where} is no operator of the graph, or changes more than a placement"
        return
    if call.target == derived.exchange + REGROUP:
        yield from _regrouped(derived, call, where)
        return
    members = derived.members(call)
    if any(one.members not in (0, call.members) for one in (before, after)):
        yield f"{where}: its tensors are of groups of different sizes"
    forward, backward = _kinds(before.placement, after.placement)
    if forward is None:
        yield f"{where}: {before.placement} cannot become {after.placement}"
        return
    may = CALLED.get((call.target.removeprefix(derived.exchange),), ("", ""))
    if (forward and forward != may[0]) or (backward and before.differentiable and backward != may[1]):
        yield f"{where}: {before.placement} becomes {after.placement} by {forward or backward}"
    part = derived.more(before, after) * derived.of_member(call, 0)
    sizes = [size * part for size in derived.whole_bytes(before)]
    derived.forward[call.operator].add(forward, sizes, members)
    if before.differentiable:
        derived.backward[call.operator].add(backward, sizes, members)


def _across(derived: _Derived, call: DividedCall, where: str) -> Iterator[str]:
    """A change of placement among inner groups, which every member of one makes of its part."""
    if derived.outer is None:
        yield f"{where}: there are no inner groups"
        return
    (before,), (after,) = derived.tensors(call.inputs), derived.tensors(call.outputs)
    change = derived.outer.makers[after.name]
    one, other = (derived.outer.division.tensors[each[0]] for each in (change.inputs, change.outputs))
    allowed = carried(one, other, derived.outer.degree, derived.outer.division.load, before.placement, derived.degree)
    if after.placement not in allowed:
        yield f"{where} does not make {after.placement} of {before.placement}"


def _within(outer: _Derived, inner: _Derived) -> Iterator[str]:
    """What members run that is not what their inner group does: calls that it has not, of other tensors, or tensors of
    other shapes than those of its parts."""
    for tensor in inner.division.tensors:
        whole = outer.named.get(_origin(tensor.name))
        if (
            whole is None
            or held(whole, outer.degree, outer.division.load) != tensor.shape
            or whole.item_bytes != tensor.item_bytes
        ):
            yield f"division: {tensor.name!r} is no tensor of an inner group, or of another shape"
    for call in inner.division.calls:
        if inner.changes(call):
            continue
        counterpart = outer.makers.get(_origin(inner.division.tensors[call.outputs[0]].name))
        names = [_origin(tensor.name) for tensor in inner.tensors(call.inputs)]
        if (
            counterpart is None
            or counterpart.target != call.target
            or [one.name for one in outer.tensors(counterpart.inputs)] != names
        ):
            yield f"division: {call.target} of {_name(inner, call)} is no call of an inner group"


def _origin(name: str) -> str:
    """Of which tensor of an inner group one is made whose placement over its members is changed."""
    return name.partition("@~")[0].removesuffix("@")


def _regrouped(derived: _Derived, call: DividedCall, where: str) -> Iterator[str]:
    """A tensor that goes to a group of another size: divided alike over both, or whole at both, or over the one and
    whole at the only member of the other. Members of the larger group put together what is whole: each has the share
    that its sender had for it."""
    (before,), (after,) = derived.tensors(call.inputs), derived.tensors(call.outputs)
    sent, received = derived.members(before), derived.members(after)
    if PARTIAL in (before.placement, after.placement) or UNSUMMED in (before.placement, after.placement):
        yield f"{where}: {before.placement} at {sent} members cannot become {after.placement} at {received}"
        return
    larger, smaller = max(sent, received), min(sent, received)
    alone = before if sent < received else after
    alike = before.placement == after.placement or (smaller == 1 and alone.placement == WHOLE)
    if sent == received or larger % smaller or not alike or derived.members(call) != larger:
        yield f"{where}: {before.placement} at {sent} members cannot become {after.placement} at {received}"
        return
    if before.placement == after.placement == WHOLE:
        sizes, share = derived.whole_bytes(before), larger // smaller
        if received > sent:
            derived.forward[call.operator or 0].add(GATHER, sizes, share)
        elif before.differentiable:
            derived.backward[call.operator or 0].add(GATHER, sizes, share)


def _kinds(before: str, after: str) -> tuple[str | None, str]:
    """What is exchanged, and what is of its gradient; None where nothing makes the one of the other."""
    divided = after not in (WHOLE, UNSUMMED, PARTIAL)
    if after == PARTIAL or before == UNSUMMED:
        return None, ""
    if before == PARTIAL:
        return (SCATTER, GATHER) if divided else (REDUCE, REDUCE if after == UNSUMMED else "")
    if before == WHOLE:
        return "", GATHER if divided else REDUCE if after == UNSUMMED else ""
    if divided:
        return (ALL_TO_ALL, ALL_TO_ALL) if before != after else ("", "")
    return GATHER, SCATTER if after == UNSUMMED else ""


def _exchanged(derived: _Derived) -> Iterator[str]:
    """Operators that exchange other than what placements ask for."""
    graph, across = derived.graph, derived.inner is not None
    phases: dict[tuple[int, Phase], Operator] = {
        (operator.forward_of, operator.phase): operator
        for operator in graph.operators
        if operator.forward_of is not None
    }
    named = {call.target for call in derived.division.calls} | {""}
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.FORWARD:
            yield from _compared(graph, operator, derived.forward.get(position, Sent()), across=across)
            if operator.op_type.startswith(EXCHANGE) and operator.op_type not in named and not across:
                yield f"{operator.name!r} changes a placement that no tensor has"
            for phase, wanted in ((Phase.BACKWARD_INPUT, derived.backward), (Phase.UPDATE, derived.update)):
                mirror, sent = phases.get((position, phase)), wanted.get(position, Sent())
                if mirror is not None:
                    yield from _compared(graph, mirror, sent, across=across)
                elif sent.steps and graph.trains and _goes_back(graph, position, phase, phases):
                    yield f"{operator.name!r} has no {phase.value}, in which its members exchange what they have"
        elif operator.phase is Phase.BACKWARD_WEIGHT:
            yield from _compared(graph, operator, Sent(), across=across)


def _goes_back(graph: OpGraph, position: int, phase: Phase, phases: Mapping[tuple[int, Phase], Operator]) -> bool:
    """Whether a gradient comes to what an operator makes."""
    after = (one for one in graph.successors[position] if graph.operators[one].phase is Phase.FORWARD)
    return phase is Phase.UPDATE or any((one, Phase.BACKWARD_INPUT) in phases for one in after)


def _compared(graph: OpGraph, operator: Operator, wanted: Sent, *, across: bool) -> Iterator[str]:
    """across: whether what it exchanges among inner groups is meant."""
    fixed = operator.phase is Phase.UPDATE
    sent, steps = operator.exchanged_bytes, operator.exchange_steps
    if across:
        sent, steps = operator.outer_bytes, operator.outer_steps
    for factor, nbytes in zip((1, 1 if fixed else 2), wanted.nbytes, strict=True):
        stated = sent.at(graph.samples * factor)
        if not math.isclose(stated, nbytes, rel_tol=CLOSE):
            yield (
                f"{operator.name!r} exchanges {stated:,.0f} B for {graph.samples * factor} samples, and by its"
                f" placements {nbytes:,.0f} B"
            )
            return
    if steps != wanted.steps:
        yield f"{operator.name!r} sends {steps} messages, and by its placements {wanted.steps}"


def _held(derived: _Derived) -> Iterator[str]:
    """Operators that hold other than their share of parameters, or make other than their share of tensors."""
    graph = derived.graph
    for position, operator in enumerate(graph.operators):
        if operator.phase is not Phase.FORWARD:
            continue
        share = derived.held.get(position, 0.0)
        if not math.isclose(operator.param_bytes, share, rel_tol=CLOSE):
            yield (
                f"{operator.name!r} holds {operator.param_bytes:,.0f} B of parameters, and by their placements a member"
                f" has {share:,.0f} B"
            )
    for tensor in graph.tensors:
        producer = graph.operators[tensor.producer]
        if producer.phase is not Phase.FORWARD or not tensor.shape:
            continue
        nbytes = tensor.nbytes.at(graph.samples)
        if not any(math.isclose(nbytes, each, rel_tol=CLOSE) for each in derived.makes.get(tensor.producer, ())):
            yield f"{producer.name!r} makes a tensor of {nbytes:,.0f} B, which none of a member's is"


def _computed(derived: _Derived) -> Iterator[str]:
    """Forward operators that no call is part of, whose stated placement is none of their calls', or whose products are
    less than their calls'."""
    graph = derived.graph
    targets: dict[int, set[str]] = defaultdict(set)
    for call in derived.division.calls:
        if call.operator is not None:
            targets[call.operator].add(call.target)
    letters = [_letters(each) for each in (derived.outer, derived) if each is not None]
    for position, operator in enumerate(graph.operators):
        if operator.phase is not Phase.FORWARD:
            continue
        op_type = UNCACHED if operator.op_type == CACHED_ATTENTION else operator.op_type
        if op_type.removesuffix("_") not in {each.removesuffix("_") for each in targets[position]}:
            yield f"{operator.name!r} is {operator.op_type}, of which no divided call is a part"
        shown = operator.placement.split(BESIDE)[-len(letters) :] if operator.placement else []
        made = [each.get(position, set(words[:1])) for words, each in zip(shown, letters, strict=False)]
        if any(words[:1] not in each for words, each in zip(shown, made, strict=False)):
            yield f"{operator.name!r} is said to make {operator.placement}, and no call of it does"
        flops = operator.flops.at(graph.samples)
        if derived.products[position] > flops * (1 + CLOSE):
            wanted = derived.products[position]
            yield f"{operator.name!r} computes {flops:,.0f} operations, and its member's products {wanted:,.0f}"


def _letters(derived: _Derived) -> Mapping[int, set[str]]:
    """By operator, what its calls make: the first marks of placements."""
    marks: dict[int, set[str]] = defaultdict(set)
    for call in derived.division.calls:
        if call.operator is not None:
            marks[call.operator] |= {one.placement[:1].replace("E", "S") for one in derived.tensors(call.outputs)}
    return marks


def _saved(derived: _Derived) -> Iterator[str]:
    """Operators that save for the backward other than their members' share of what their calls save. A storage is saved
    once, by the first call; what comes from outside, and a share of that, is held anyway. What an exchange makes of
    other tensors is a storage of its own, unless they stay whole."""
    division, graph = derived.division, derived.graph
    if division.saved is None:
        return
    outside, storage = _from_outside(division), _storages(derived)
    sizes: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    charged: set[int] = set()
    saved: dict[int, set[int]] = {}
    inside: set[int] = set()
    for each in sorted(division.saved, key=lambda one: one.call):
        call = division.calls[each.call]
        saved[each.call] = {storage[number] for number in each.tensors}
        if call.operator is None or not set(each.tensors) <= {*call.inputs, *call.outputs}:
            yield f"division: {call.target} of {_name(derived, call)} saves what it neither reads nor makes"
            continue
        share = 1 / derived.members(call) if _is_divided(derived, call) else 1.0
        more = [each.inside * share, (each.inside + each.grows * graph.samples) * share]
        inside |= {each.call} if each.inside else set()
        for owner in sorted(saved[each.call] - charged - outside):
            tensor = division.tensors[owner]
            more = [size + part for size, part in zip(more, derived.bytes_of_member(tensor), strict=True)]
        charged |= saved[each.call]
        sizes[call.operator] = [one + other for one, other in zip(sizes[call.operator], more, strict=True)]
    if division.saved:
        yield from _operands(derived, storage, saved, inside)
    for position, operator in enumerate(graph.operators):
        if operator.phase is not Phase.FORWARD:
            continue
        for factor, wanted in zip((1, 2), sizes[position], strict=True):
            stated = operator.saved_bytes.at(graph.samples * factor)
            if not math.isclose(stated, wanted, rel_tol=EXACT, abs_tol=BYTE):
                yield (
                    f"{operator.name!r} saves {stated:,.0f} B for the backward of {graph.samples * factor} samples, and"
                    f" by its placements {wanted:,.0f} B"
                )
                break


def _storages(derived: _Derived) -> list[int]:
    """Of every tensor the one in whose storage it is. Raises ValueError for one that its call does not read."""
    division, outside = derived.division, _from_outside(derived.division)
    storage_of = list(range(len(division.tensors)))
    for call in division.calls:
        for number in call.outputs:
            base = division.tensors[number].base
            if call.target.startswith(EXCHANGE) and not derived.changes(call):
                base = call.inputs[0] if storage_of[call.inputs[0]] in outside else None
            elif derived.changes(call):
                before, after = (division.tensors[each].placement for each in (call.inputs[0], number))
                alike = (before, after) == (WHOLE, UNSUMMED) or storage_of[call.inputs[0]] in outside
                alike = alike and call.target != EXCHANGE + REGROUP
                base = call.inputs[0] if alike else None
            elif base is not None and base not in call.inputs:
                raise ValueError(f"{division.tensors[number].name!r} is in the storage of what its call does not read")
            storage_of[number] = number if base is None else storage_of[base]
    return storage_of


def _operands(
    derived: _Derived, storage: Sequence[int], saved: Mapping[int, set[int]], inside: Collection[int]
) -> Iterator[str]:
    """Products that save too little, by rule: the gradient of one operand is computed from the other. Where one makes
    something inside, that may be a copy of it."""
    division, outside = derived.division, _from_outside(derived.division)
    for position, call in enumerate(division.calls):
        if call.target not in PRODUCTS or position in inside or len(call.inputs) < 2:
            continue
        if not any(one.differentiable for one in derived.tensors(call.outputs)):
            continue
        for one, other in (call.inputs[:2], call.inputs[1::-1]):
            needed = storage[one]
            if division.tensors[other].differentiable and needed not in outside | saved.get(position, set()):
                yield (
                    f"division: {call.target} of {_name(derived, call)} does not save {division.tensors[one].name!r},"
                    f" of which the gradient of {division.tensors[other].name!r} is made"
                )
