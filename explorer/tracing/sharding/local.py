"""What one member of a group runs: a captured graph with the shapes of its parts, and what it exchanges as calls.

The rest of tracing (folding, sizes, the backward) reads it like any captured graph: compute, memory and messages of a
divided model come out of the same code as those of a whole one. Where parts of a model are divided over groups of
different sizes, a value that goes from one part to another is regrouped on the way, by a call of the larger group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from explorer.tracing.captured import Captured, Exchange, Node, Saved, SavedWhole, Value, Whole
from explorer.tracing.fold import is_bookkeeping
from explorer.tracing.sharding.choices import (
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
from explorer.tracing.sharding.names import leaf_names, placement_words
from explorer.tracing.sharding.program import Labels
from explorer.tracing.sharding.ring import round_exchange, rounds
from explorer.tracing.sharding.twice import shared_out
from solvers.errors import InvalidProblem
from solvers.problem import collectives
from solvers.problem.collectives import BESIDE, COLLECTIVE, REGROUP, Axis

NAMES = {
    ("all_reduce", ""): "all_reduce",
    ("", "all_reduce"): "copy",
    ("all_gather", "reduce_scatter"): "all_gather",
    ("", "all_gather"): "slice",
}
"""What a change of placement is called, by what it exchanges in the forward and in the backward (Megatron's g, f and
their like for sequences); others bear the name of the former."""


@dataclass(frozen=True, slots=True)
class Part:
    """How the calls of a part of a model are divided. choices: of its degree, all over the model."""

    choices: Choices
    labels: Labels


@dataclass(slots=True)
class Member:
    """The graph of one member while it is made. parts: by degree. degree_of: of every call that computes; labels: its
    option. of: the whole graph at the batch at hand, with the choices made at another, perhaps. names: of leaves.
    read_as: a value, the degree and the state of what it looks at -> its name here."""

    parts: Mapping[int, Part]
    degree_of: Mapping[int, int]
    of: Captured
    names: Mapping[int, str]
    labels: dict[int, Option] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    read_as: dict[tuple[str, int, State], str] = field(default_factory=dict)
    storage: dict[str, str] = field(default_factory=dict)
    """A value here -> what owns its storage, seen through changes that copy nothing."""
    whole: dict[str, Whole] = field(default_factory=dict)
    moved_to: dict[int, int] = field(default_factory=dict)
    """Position of a call that computes -> its position here."""

    def __post_init__(self) -> None:
        self.labels = {at: self.parts[degree].labels[at] for at, degree in self.degree_of.items()}

    @property
    def known(self) -> Choices:
        """What all parts know alike: who makes what, and what looks at what."""
        return next(iter(self.parts.values())).choices

    @property
    def again(self) -> str:
        """What names of a model that is divided again have, beside those of the first time."""
        return "" if self.of.outer is None else "~"

    def members(self, degree: int) -> int:
        """As nodes and values state it: only where it differs from one to the other."""
        return degree if len(self.parts) > 1 else 0


def member_of(choices: Choices, labels: Labels, of: Captured) -> Captured:
    """The part of ``of`` that one member of a group runs when its calls are divided by ``labels``."""
    return members_of({choices.degree: Part(choices, labels)}, dict.fromkeys(labels, choices.degree), of)


def members_of(parts: Mapping[int, Part], degree_of: Mapping[int, int], of: Captured) -> Captured:
    """The same where calls are divided over groups of different sizes: what one member of each group runs.

    degree_of: of every call that computes, by position; of any two degrees one is a multiple of the other. Raises
    InvalidProblem for a parameter that calls of two degrees read.
    """
    made = Member(parts, degree_of, of, leaf_names(next(iter(parts.values())).choices))
    placed = _held(made)
    for name in (*of.parameters, *of.buffers, *of.inputs):
        degree, state, place = placed.get(name, (0, WHOLE, None))
        made.values[name] = _local(made, name, degree, state, place)
        made.storage[name] = name
    for at, node in enumerate(of.nodes):
        if at in made.labels:
            _run(made, at, node, made.labels[at])
        elif is_bookkeeping(of, node) and all(name in made.values for _, name in node.tensors):
            for output in node.outputs:
                made.values[output] = _local(made, output, 0, WHOLE)
                made.storage[output] = output
            made.nodes.append(node)
    outputs = tuple(
        dict.fromkeys(_read(made, name, _native(made, made.known.source(name))[0], WHOLE) for name in of.outputs)
    )
    return replace(
        of,
        name=of.name,
        values=made.values,
        nodes=tuple(made.nodes),
        parameters={name: label for name, label in of.parameters.items() if name in made.values},
        outputs=outputs,
        saved=tuple(_saved(made)),
        whole=made.whole,
        saved_whole=tuple(_saved_whole(made)),
        load=made.known.load,
        redundant=made.known.redundant,
        axis=made.known.axis or Axis.TENSOR,
    )


def _held(made: Member) -> Mapping[str, tuple[int, State, int | None]]:
    """How parameters and buffers are divided, and over how many members: as those that read them need. Raises
    InvalidProblem for parameters of two degrees."""
    states: dict[str, tuple[int, State, int | None]] = {}
    readers: dict[str, int] = {}
    for at, option in made.labels.items():
        degree = made.degree_of[at]
        for (_, name), needed, place in zip(made.of.nodes[at].tensors, option.inputs, option.places, strict=True):
            source, needed = made.known.source(name), made.known.of_source(name, needed)
            if source in made.of.parameters and readers.setdefault(source, degree) != degree:
                raise InvalidProblem(
                    f"{made.of.name}: {made.of.parameters[source]} is read by calls that are divided over"
                    f" {readers[source]} devices and over {degree}; give them one degree (--tensor-parallel)"
                )
            if (source in made.of.parameters or source in made.of.buffers) and needed >= 0:
                states[source] = (degree, needed, place if source == name else None)
    return states


def _local(
    made: Member, name: str, degree: int, state: State, place: int | None = None, new: str = "", base: str | None = None
) -> Value:
    """A value of the whole graph as the member has it, dense. degree: 0 for what comes from outside, whole."""
    choices = made.parts[degree].choices if degree in made.parts else made.known
    shape = choices.local_shape(name, state, place, made.of)
    strides, step = [0] * len(shape), 1
    for axis in sorted(range(len(shape)), key=lambda axis: (made.of.values[name].strides[axis], -axis)):
        strides[axis], step = step, step * max(shape[axis], 1)
    placement = laid_out(choices, name, state, place, made.of)
    made.whole[new or name] = Whole(made.of.values[name].shape, placement, made.members(degree))
    return replace(made.of.values[name], name=new or name, shape=shape, strides=tuple(strides), base=base)


def laid_out(choices: Choices, name: str, state: State, place: int | None, of: Captured | None = None) -> str:
    """A state in the words of a graph. place, of: as in `Choices.local_shape`."""
    if state < 0:
        return {WHOLE: collectives.WHOLE, SHARED: collectives.UNSUMMED, PARTIAL: collectives.PARTIAL}[state]
    axes = [axis for axis in range(len(choices.captured.values[name].shape)) if state in choices.ways(name, axis)]
    dim = axes[0] if place is None else place
    if (slots := choices.slots(name, dim, state)) or choices.by_expert(name, dim, state):
        return collectives.by_expert(dim, slots)
    leaves = choices.leaves(name, dim)
    if state not in leaves:
        leaves = choices.known.dimensions.sorted_from(choices.known.of[name][dim])
    before = leaves[: leaves.index(state)]
    pieces = choices.known.dimensions.length(before)
    if of is not None and choices.samples & set(before):  # there are as many as samples, or tokens of them
        pieces = pieces * of.samples // choices.captured.samples
    return collectives.shard(dim, pieces)


def _native(made: Member, source: str) -> tuple[int, State]:
    """The degree of the call that makes a value, 0 where none does, and the state that it makes it in."""
    at = made.known.made_by.get(source)
    if at is None or at not in made.labels:
        return 0, WHOLE
    return made.degree_of[at], made.labels[at].outputs[made.of.nodes[at].outputs.index(source)]


def _read(made: Member, name: str, degree: int, needed: State) -> str:
    """The name here of a value of the whole graph, in the state that a call of a degree needs it in."""
    source = made.known.source(name)
    held = source in made.of.parameters or source in made.of.buffers
    alone = held or not made.of.values[source].requires_grad
    state = WHOLE if alone and needed == SHARED else needed
    if (name, degree, state) not in made.read_as:
        if name != source:
            made.read_as[name, degree, state] = _looked_at(made, name, degree, state)
        else:
            made.read_as[name, degree, state] = name if held else _changed(made, source, degree, state)
    return made.read_as[name, degree, state]


def _looked_at(made: Member, name: str, degree: int, state: State) -> str:
    """A view, called once for each state of what it looks at."""
    at = made.known.made_by[name]
    node = made.of.nodes[at]
    below = SHARED if state >= 0 and made.known.repeats(at, state) else state
    source = _read(made, node.tensors[0][1], degree, below)
    suffix = "" if made.of.nodes[at].outputs[0] not in made.values else f"@{made.again}{source}"
    tensors = ((node.tensors[0][0], source), *((a, _read(made, v, degree, WHOLE)) for a, v in node.tensors[1:]))
    read = {before: after for (_, before), (_, after) in zip(node.tensors, tensors, strict=True)}
    outputs = []
    for output in node.outputs:
        new, base = f"{output}{suffix}", read.get(made.of.values[output].base or "", source)
        made.values[new] = _local(made, output, degree, state, new=new, base=base)
        made.storage[new] = made.storage[base]
        made.read_as[output, degree, state] = new
        outputs.append(new)
    members = made.members(degree)
    made.nodes.append(
        replace(node, name=f"{node.name}{suffix}", tensors=tensors, outputs=tuple(outputs), members=members)
    )
    return made.read_as[name, degree, state]


def _changed(made: Member, source: str, degree: int, needed: State) -> str:
    """What a call made, or what comes in, in the state that is needed: exchanged where it is in another."""
    home, native = _native(made, source)
    read = source
    if home not in (0, degree):
        crosses = _crosses_as(made, source, degree, needed)
        read = _regrouped(made, source, home, degree, crosses)
        native = WHOLE if degree == 1 else crosses
    value = made.of.values[source]
    forward, backward = change(native, needed)
    if native == needed or not (forward or (backward and value.requires_grad) or needed >= 0):
        return read
    if native < WHOLE and needed == SHARED:  # a partial sum is added up once for all, and handed on as a copy
        whole = _read(made, source, degree, WHOLE)
        return _exchange(made, source, whole, degree, SHARED, "", "all_reduce") if value.requires_grad else whole
    kinds = (forward[0].kind if forward else "", backward[0].kind if backward and value.requires_grad else "")
    return _exchange(made, source, read, degree, needed, *kinds)


def _crosses_as(made: Member, source: str, degree: int, needed: State) -> State:
    """The state in which a value goes from the group that makes it to one of ``degree`` members: divided as it is, or
    as it is needed, where that divides both; else whole."""
    home, native = _native(made, source)
    lengths = made.known.known.dimensions.lengths
    for state, by in ((native, degree), (needed, home)):
        if state >= 0 and lengths[state] % by == 0:
            return state
    return WHOLE


def _regrouped(made: Member, source: str, home: int, degree: int, state: State) -> str:
    """A value at a group of ``degree`` members that one of ``home`` makes. The larger group regroups it, so that what
    goes between them is what the members of the smaller have; of a whole tensor each of these sends every one of its
    receivers a share, which the receivers gather."""
    larger, smaller = max(home, degree), min(home, degree)
    if larger % smaller:
        raise InvalidProblem(
            f"{made.of.name}: groups of {home} and of {degree} devices follow each other, and neither is a multiple of"
            " the other; give degrees that are (--tensor-parallel)"
        )
    read = _read(made, source, home, WHOLE if home == 1 else state)
    at = WHOLE if degree == 1 else state
    key = (f"{source}@{REGROUP}", degree, at)
    if key not in made.read_as:
        name = f"{source}@{REGROUP}{degree}" + ("" if at < 0 else f".{at}")
        made.values[name] = _local(made, source, degree, at, new=name)
        made.storage[name] = name
        maker = made.of.nodes[made.known.made_by[source]]
        value = made.of.values[source]
        steps = larger // smaller - 1 if state == WHOLE else 0
        sent = value.nbytes * steps / (steps + 1)
        back = value.requires_grad and degree < home
        exchange = Exchange(
            sent if degree > home else 0.0, steps if degree > home else 0, sent if back else 0.0, steps if back else 0
        )
        made.nodes.append(
            Node(
                name, f"{COLLECTIVE}{REGROUP}", maker.module_path, (("input", read),), {}, (name,), (), maker.region,
                exchange, _placement(made, source, at), larger,
            )
        )  # fmt: skip
        made.read_as[key] = name
    return made.read_as[key]


def _exchange(made: Member, source: str, read: str, degree: int, needed: State, forward: str, backward: str) -> str:
    kind = NAMES.get((forward, backward), forward or backward or "slice")
    mark = "@@" if needed == WHOLE else "@"  # beside one that every member has a part of the gradient of
    mark += made.again
    of = f":{degree}" if len(made.parts) > 1 else ""
    name = f"{source}{mark}{kind}{needed if needed >= 0 else ''}{of}"
    made.values[name] = _local(made, source, degree, needed, new=name)
    made.storage[name] = made.storage[read] if kind == "copy" else name
    maker = made.known.made_by.get(source)
    path, region = (made.of.nodes[maker].module_path, made.of.nodes[maker].region) if maker is not None else ("", "")
    choices = made.parts[degree].choices
    nbytes = made.of.values[source].nbytes * choices.chosen(source, _native(made, source)[1], needed)
    exchange = _exchanged(degree, forward, backward, nbytes)
    called = f"{COLLECTIVE}{kind}"
    placement, members = _placement(made, source, needed), made.members(degree)
    tensors = (("input", read),)
    made.nodes.append(Node(name, called, path, tensors, {}, (name,), (), region, exchange, placement, members))
    return name


def _placement(made: Member, name: str, state: State) -> str:
    """What a value in a state is to the members of the group, for people."""
    axes = range(len(made.of.values[name].shape))
    place = next((axis for axis in axes if state in made.known.ways(name, axis)), None)
    words = placement_words(made.names, state, place)
    maker = made.known.made_by.get(name)
    among = "" if made.of.outer is None or maker is None else made.of.nodes[maker].placement
    return f"{among}{BESIDE}{words}" if among else words


def _exchanged(degree: int, forward: str, backward: str, nbytes: float, update_bytes: float = 0.0) -> Exchange:
    parts: list[float] = []
    for kind, size in ((forward, nbytes), (backward, nbytes), ("all_reduce" if update_bytes else "", update_bytes)):
        each = Collective(kind)
        parts += [each.sent_bytes(size, degree), each.steps(degree)] if kind else [0.0, 0]
    return Exchange(parts[0], int(parts[1]), parts[2], int(parts[3]), parts[4], int(parts[5]))


def _run(made: Member, at: int, node: Node, option: Option) -> None:
    degree = made.degree_of[at]
    tensors = tuple(
        (argument, _read(made, name, degree, needed))
        for (argument, name), needed in zip(node.tensors, option.inputs, strict=True)
    )
    names = {name: new for (_, name), (_, new) in zip(node.tensors, tensors, strict=True)}
    mutates = tuple(names[name] for name in node.mutates)
    for output, state in zip(node.outputs, option.outputs, strict=True):
        base = made.of.values[output].base
        there = next((new for name, new in names.items() if base is not None and name == base), None)
        made.values[output] = _local(made, output, degree, state, base=there if node.mutates else None)
        made.storage[output] = made.storage[there] if there is not None and node.mutates else output
    sources = dict.fromkeys(made.known.source(name) for name in partial_gradients(made.known, node, option))
    partial_bytes = float(sum(made.of.values[name].nbytes for name in sources))
    rows = made.of.values[node.tensors[1][1]].numel if option.rows else 0
    exchange = _exchanged(degree, "all_reduce" if rows else "", "", 2 * ROW_BYTES * rows, partial_bytes)
    choices, times = made.parts[degree].choices, 1
    replicas, more, steps = replica_sums(choices, node, option)
    exchange = replace(exchange, update_bytes=exchange.update_bytes + more, update_steps=exchange.update_steps + steps)
    if option.ring:
        went, times = round_exchange(choices, node, made.of), rounds(choices, node, option)
        exchange = replace(went, update_bytes=exchange.update_bytes, update_steps=exchange.update_steps)
    made.moved_to[at] = len(made.nodes)
    placement = _placement(made, node.outputs[0], option.outputs[0])
    members = made.members(degree)
    made.nodes.append(
        replace(
            node,
            tensors=tensors,
            mutates=mutates,
            exchange=exchange,
            placement=placement,
            members=members,
            rounds=times * node.rounds,
            update_of=(*sources, *replicas),
            outer=shared_out(node, made.of, made.values, names),
        )
    )


def _saved(made: Member) -> list[Saved]:
    """What is kept for the backward, the bytes of each storage once, of the first call that keeps it."""
    entries: list[Saved] = []
    charged: set[str] = set()
    for entry in made.of.saved:
        if entry.node not in made.moved_to:
            continue
        node, new = made.of.nodes[entry.node], made.moved_to[entry.node]
        if entry.value is None:
            share = made.degree_of[entry.node] if made.labels[entry.node].leaf >= 0 else 1
            entries.append(Saved(new, None, entry.nbytes // share))
            continue
        here = made.nodes[new]
        root = made.of.root(entry.value)
        read = (b for (_, a), (_, b) in zip(node.tensors, here.tensors, strict=True) if made.of.root(a) == root)
        made_here = (name for name in here.outputs if made.of.root(name) == root)
        owner = made.storage[next((*read, *made_here, entry.value).__iter__())]
        if owner in made.values:
            entries.append(Saved(new, owner, 0 if owner in charged else made.values[owner].nbytes))
            charged.add(owner)
    return entries


def _saved_whole(made: Member) -> Iterator[SavedWhole]:
    """What every call saves for the backward, before it is divided."""
    of = made.of
    entries = sorted((entry for entry in of.saved if entry.node in made.moved_to), key=lambda entry: entry.node)
    for at, of_node in groupby(entries, key=lambda entry: entry.node):
        node, here, inside = of.nodes[at], made.nodes[made.moved_to[at]], 0
        roots = set()
        for entry in of_node:
            inside += entry.nbytes if entry.value is None else 0
            roots |= {of.root(entry.value)} if entry.value is not None else set()
        before = (*(name for _, name in node.tensors), *node.outputs)
        after = (*(name for _, name in here.tensors), *here.outputs)
        values = dict.fromkeys(b for a, b in zip(before, after, strict=True) if of.root(a) in roots)
        yield SavedWhole(made.moved_to[at], tuple(values), inside)
