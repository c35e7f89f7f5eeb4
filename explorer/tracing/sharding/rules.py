"""What each call allows: the loops of its loop nest along which its tensors can be divided.

A member of a group runs the call on its share of one loop. An input that has the loop's dimension is divided there, one
that does not is whole; an output that has it is divided, one that does not is a partial sum. This is DTensor's
single-dimension rule (Shard, Replicate, Partial), in named dimensions. A call without a rule here is run whole by
every member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.tracing.captured import Captured, Node
from explorer.tracing.sharding.dimensions import Leaves
from explorer.tracing.sharding.loops import Known, Loop, Rule, Where, loops_of, outer_leaves, rules_named
from explorer.tracing.sharding.routing import ROUTED
from explorer.tracing.sharding.twice import loops_across
from solvers.problem.collectives import is_outer


def analyse(captured: Captured) -> Known:
    """The dimensions of every value of a captured graph, and the loops of every call."""
    known = Known(captured)
    for name in (*captured.parameters, *captured.buffers, *captured.inputs):
        known.enter(name)
    for position, node in enumerate(captured.nodes):
        for _, name in node.tensors:
            known.enter(name)
        target = node.target.removesuffix("_") if node.mutates else node.target
        rule = loops_across if is_outer(target) else RULES.get(target)
        if rule is not None and node.outputs:
            known.loops[position] = rule(known, node)
        for output in node.outputs:
            known.enter(output)
    return known


def _pointwise(known: Known, node: Node) -> tuple[Loop, ...]:
    """Every dimension of the result, with those of the operands that are as long."""
    shape = known.value(node.outputs[0]).shape
    loops: list[Loop] = []
    result: list[Leaves] = []
    for axis, length in enumerate(shape):
        places: list[Where] = []
        leaves: Leaves = ()
        for _, name in node.tensors:
            own = axis - len(shape) + len(known.value(name).shape)
            there = own >= 0 and length > 1 and known.value(name).shape[own] == length
            places.append(own if there else None)
            if there and leaves:
                known.join(leaves, known.of[name][own])
            elif there:
                leaves = known.of[name][own]
        result.append(leaves)
        if leaves:
            loops.append(Loop(leaves, tuple(places), (axis,) * len(node.outputs)))
    for output in node.outputs:
        known.set(output, result)
    return tuple(loops)


def _sum_of_products(
    known: Known,
    node: Node,
    operands: tuple[str, str],
    left: Sequence[str],
    right: Sequence[str],
    out: Sequence[str],
) -> tuple[Loop, ...]:
    """A product of two tensors whose dimensions bear letters, those of the bias aligned with the last of the result."""
    names = [node.tensor(argument) or "" for argument in operands]
    letters: dict[str, Leaves] = {}
    for name, marks in zip(names, (left, right), strict=True):
        for mark, leaves in zip(marks, known.of[name], strict=True):
            if letters.setdefault(mark, leaves) is not leaves:
                known.join(letters[mark], leaves)
    known.set(node.outputs[0], [letters[mark] for mark in out])
    for argument, name in node.tensors:
        if argument not in operands:
            _align(known, name, [letters[mark] for mark in out])
    loops = []
    for mark, leaves in letters.items():
        once: list[int] = []
        places: list[Where] = []
        for position, (argument, name) in enumerate(node.tensors):
            if argument == operands[0]:
                places.append(left.index(mark) if mark in left else None)
            elif argument == operands[1]:
                places.append(right.index(mark) if mark in right else None)
            else:
                rank = len(known.value(name).shape)
                axis = out.index(mark) - len(out) + rank if mark in out else -1
                places.append(axis if axis >= 0 and known.value(name).shape[axis] > 1 else None)
                once += [position] * (mark not in out)
        if leaves:
            loops.append(Loop(leaves, tuple(places), (out.index(mark) if mark in out else None,), tuple(once)))
    return tuple(loops)


def _align(known: Known, name: str, dimensions: Sequence[Leaves]) -> None:
    """Join a value's dimensions with the last ones of a result that it is added to."""
    for own, leaves in zip(reversed(known.of[name]), reversed(dimensions), strict=False):
        if own:
            known.join(leaves, own)


def _linear(known: Known, node: Node) -> tuple[Loop, ...]:
    rank = len(known.value(node.tensor("input") or "").shape)
    rows = [f"r{axis}" for axis in range(rank - 1)]
    return _sum_of_products(known, node, ("input", "weight"), [*rows, "k"], ["n", "k"], [*rows, "n"])


def _matrices(first: str, second: str) -> Rule:
    """[..., m, k] x [..., k, n], leading dimensions equal; anything else has no loops."""

    def rule(known: Known, node: Node) -> tuple[Loop, ...]:
        one, other = node.tensor(first), node.tensor(second)
        if one is None or other is None:
            return ()
        left, right = known.value(one).shape, known.value(other).shape
        if len(left) < 2 or len(right) < 2 or (len(right) > 2 and left[:-2] != right[:-2]):
            return ()
        batch = [f"b{axis}" for axis in range(len(left) - 2)]
        marks = [*(batch if len(right) > 2 else []), "k", "n"]
        return _sum_of_products(known, node, (first, second), [*batch, "m", "k"], marks, [*batch, "m", "n"])

    return rule


def _convolution(known: Known, node: Node) -> tuple[Loop, ...]:
    """Samples, output channels, and the sum over input channels; of one group a channel, the channels."""
    name, kernel = (node.tensor(argument) or "" for argument in ("input", "weight"))
    image, weight = known.of[name], known.of[kernel]
    groups, output = node.constants.get("groups", 1), node.outputs[0]
    own = [known.dimensions.new(length) for length in known.value(output).shape]
    own[0] = image[0]
    places = {argument: position for position, (argument, _) in enumerate(node.tensors)}
    loops: list[tuple[Leaves, dict[str, Where], Where]] = [(image[0], {"input": 0}, 0)]
    if groups == 1:
        own[1] = weight[0]
        known.join(image[1], weight[1])
        loops += [(weight[0], {"weight": 0, "bias": 0}, 1), (image[1], {"input": 1, "weight": 1}, None)]
    elif groups == known.value(kernel).shape[0]:
        own[1] = weight[0]
        if known.value(name).shape[1] == groups:
            known.join(image[1], weight[0])
            loops.append((weight[0], {"input": 1, "weight": 0, "bias": 0}, 1))
    known.set(output, own)
    if (bias := node.tensor("bias")) is not None:
        known.join(own[1], known.of[bias][0])
    return tuple(
        Loop(
            leaves,
            tuple(there.get(argument) for argument, _ in node.tensors),
            (out,),
            (places["bias"],) if out is None and "bias" in places else (),
        )
        for leaves, there, out in loops
        if leaves
    )


def _batch_norm(known: Known, node: Node) -> tuple[Loop, ...]:
    """Channels only: its statistics are over everything else."""
    image = known.of[node.tensors[0][1]]
    for output in node.outputs:
        known.set(output, image)
    for _, name in node.tensors[1:]:
        known.join(image[1], known.of[name][0])
    places = (1, *(0 for _ in node.tensors[1:]))
    return loops_of(known, node, [(image[1], places, [1])])


def _over_rows(argument: str) -> Rule:
    """Every dimension but the last ones, over which the call works: those of ``argument`` (a shape)."""

    def rule(known: Known, node: Node) -> tuple[Loop, ...]:
        own = known.of[node.tensors[0][1]]
        shape = node.constants.get(argument)
        inner = len(shape) if isinstance(shape, (list, tuple)) else 1
        for output in node.outputs:
            known.set(output, own)
        rest = [None] * (len(node.tensors) - 1)
        return loops_of(known, node, [(own[axis], [axis, *rest], [axis]) for axis in range(len(own) - inner)])

    return rule


def _along(known: Known, node: Node) -> tuple[Loop, ...]:
    """Softmax and the like: every dimension but ``dim``."""
    own = known.of[node.tensors[0][1]]
    dim = node.constants.get("dim")
    known.set(node.outputs[0], own)
    if not isinstance(dim, int) or len(node.tensors) != 1:
        return ()
    return loops_of(known, node, [(own[axis], [axis], [axis]) for axis in range(len(own)) if axis != dim % len(own)])


def _reduction(known: Known, node: Node) -> tuple[Loop, ...]:
    """Sum: the dimensions that stay, and partial sums over those that go."""
    own = known.of[node.tensors[0][1]]
    dims = node.constants.get("dim")
    listed = [dims] if isinstance(dims, int) else dims
    if not isinstance(listed, (list, tuple)) or not own:
        listed = range(len(own))
    gone = {int(dim) % len(own) for dim in listed}
    stay = [axis for axis in range(len(own)) if axis not in gone]
    keepdim = bool(node.constants.get("keepdim"))
    known.set(
        node.outputs[0], [() if axis in gone else own[axis] for axis in range(len(own)) if keepdim or axis not in gone]
    )
    into = {axis: axis if keepdim else place for place, axis in enumerate(stay)}
    return loops_of(known, node, [(own[axis], [axis], [into.get(axis)]) for axis in range(len(own))])


def _attention(known: Known, node: Node) -> tuple[Loop, ...]:
    """Samples and heads (of grouped queries: the heads of keys and values); the tokens of queries, see
    `_attention_tokens`."""
    places = {argument: position for position, (argument, _) in enumerate(node.tensors)}
    q, k, v = (known.of[node.tensor(argument) or ""] for argument in ("query", "key", "value"))
    known.set(node.outputs[0], [*q[:-1], v[-1]])
    known.join(k[-2], v[-2])
    known.join(q[-1], k[-1])
    mask = node.tensor("attn_mask")
    loops = []
    for axis in range(len(q) - 2):
        known.join(k[axis], v[axis])
        length = known.dimensions.length(known.dimensions.leaves(k[axis]))
        if known.dimensions.length(known.dimensions.leaves(q[axis])) == length:
            known.join(q[axis], k[axis])
        else:
            outer = outer_leaves(known, q[axis], length)
            if outer is None:
                continue
            known.join(outer, k[axis])
        where: list[Where] = [axis] * len(node.tensors)
        if mask is not None:
            own = axis - len(q) + len(known.value(mask).shape)
            there = own >= 0 and known.value(mask).shape[own] > 1
            where[places["attn_mask"]] = own if there else None
            if there:
                known.join(known.of[mask][own], q[axis])
        loops.append((k[axis], where, [axis]))
    return (*loops_of(known, node, loops), *_attention_tokens(known, node))


def _attention_tokens(known: Known, node: Node) -> Iterator[Loop]:
    """The tokens of queries. Where they are also those of keys and values, these are divided too and go round a ring
    (Liu et al., 2023, ring attention); keys and values of other tokens are whole. So is a mask, unless its rows are
    known to be those tokens."""
    of = {argument: known.of[name] for argument, name in node.tensors}
    query, key = (known.dimensions.leaves(of[argument][-2]) for argument in ("query", "key"))
    ring = query == key
    if not query or (node.constants.get("is_causal") and not ring):
        return
    axis = len(of["query"]) - 2
    where: dict[str, Where] = {"query": axis, **(dict.fromkeys(("key", "value"), axis) if ring else {})}
    mask = [known.dimensions.leaves(dimension) for dimension in of.get("attn_mask", ())]
    if len(mask) > 1 and mask[-2] == query and not set(mask[-1]) & set(query):
        where["attn_mask"] = len(mask) - 2
    places = tuple(where.get(argument) for argument, _ in node.tensors)
    yield Loop(of["query"][-2], places, (axis,), context=True, ring=ring)


def _embedding(known: Known, node: Node) -> tuple[Loop, ...]:
    """The columns of a table, its rows (each member looks up those it has, and adds none for others), the indices."""
    table, indices = (known.of[name] for _, name in node.tensors[:2])
    known.set(node.outputs[0], [*indices, table[1]])
    loops: list[tuple[Leaves, list[Where], list[Where]]] = [
        (table[1], [1, None], [len(indices)]),
        (table[0], [0, None], [None]),
    ]
    loops += [(leaves, [None, axis], [axis]) for axis, leaves in enumerate(indices)]
    return loops_of(known, node, loops)


def _cross_entropy(known: Known, node: Node) -> tuple[Loop, ...]:
    """Rows, whose losses are added up; classes, with the largest and the sum of exponentials of each row exchanged
    (Korthikanti et al., 2022, section 4.2.2, and Megatron's vocabulary-parallel loss)."""
    logits, targets = node.tensors[0][1], node.tensors[1][1]
    scores, rows = known.of[logits], known.of[targets]
    if len(scores) != 2 or len(rows) != 1 or len(node.tensors) != 2:
        return ()
    known.join(scores[0], rows[0])
    output = node.outputs[0]
    whole = len(known.value(output).shape) == 0
    if not whole:
        known.set(output, rows)
    loops = [
        Loop(scores[0], (0, 0), (None if whole else 0,)),
        Loop(scores[1], (1, None), (None,), statistics=True),
    ]
    return tuple(loop for loop in loops if loop.leaves)


def _view(known: Known, node: Node) -> tuple[Loop, ...]:
    """A look at the same elements in another shape: reshape, transpose, expand, and what they are made of."""
    source = node.tensors[0][1]
    own, shape = known.of[source], known.value(source).shape
    name = node.target.removeprefix("aten.")
    output = node.outputs[0]
    result: Sequence[Leaves]
    if name in ("transpose", "swapaxes", "swapdims"):
        first, second = (int(node.constants[key]) % len(own) for key in ("dim0", "dim1"))  # type: ignore[call-overload]
        order = list(range(len(own)))
        order[first], order[second] = order[second], order[first]
        result = [own[axis] for axis in order]
    elif name in ("t", "numpy_T", "mT", "adjoint"):
        result = [*own[:-2], *reversed(own[-2:])] if name in ("mT", "adjoint") else own[::-1]
    elif name == "permute":
        result = [own[int(axis)] for axis in node.constants["dims"]]  # type: ignore[attr-defined]
    elif name in ("expand", "expand_as", "broadcast_to"):
        behind = [()] * (len(known.value(output).shape) - len(own))
        result = [*behind, *own]
    else:
        result = known.dimensions.reshape(own, known.value(output).shape) if 0 not in shape else own
    known.set(output, result)
    outputs = [_place(known, output, leaves) for leaves in own]
    return loops_of(
        known,
        node,
        [(leaves, _whole(node, axis), [out]) for axis, (leaves, out) in enumerate(zip(own, outputs, strict=True))],
    )


def _whole(node: Node, axis: int) -> list[Where]:
    return [axis, *(None for _ in node.tensors[1:])]


def _place(known: Known, name: str, leaves: Leaves) -> Where:
    """Of a view, whose loops are listed leaf by leaf where they are used: any dimension with one of the leaves."""
    have = set(known.dimensions.leaves(leaves))
    return next((axis for axis, own in enumerate(known.of[name]) if have & set(known.dimensions.leaves(own))), None)


def _piece(known: Known, node: Node) -> tuple[Loop, ...]:
    """Part of a tensor (slice, select, split, chunk, unbind): all dimensions but the one it is taken from. Equal pieces
    of a dimension split it in pieces and what is inside of them."""
    source = node.tensors[0][1]
    own, shape = known.of[source], known.value(source).shape
    dim = int(node.constants.get("dim", 0) or 0) % max(len(own), 1)  # type: ignore[call-overload]
    inner: Leaves | None = None
    first = known.value(node.outputs[0]).shape
    drops = len(first) < len(shape)
    start = node.constants.get("start", 0)
    equal = bool(not drops and first[dim]) and shape[dim] > first[dim] and shape[dim] % first[dim] == 0
    if equal and (not isinstance(start, int) or start % first[dim] == 0):
        split = known.dimensions.reshape([own[dim]], [shape[dim] // first[dim], first[dim]])
        inner = split[1] if known.dimensions.length(split[1]) == first[dim] else None
    for output in node.outputs:
        length = known.value(output).shape
        rest = [leaves for axis, leaves in enumerate(own) if axis != dim]
        if drops:
            known.set(output, rest)
        else:
            whole = length[dim] == shape[dim]
            fits = inner is not None and length[dim] == first[dim]
            at = own[dim] if whole else inner if fits and inner is not None else known.dimensions.new(length[dim])
            known.set(output, [*rest[:dim], at, *rest[dim:]])
    loops = []
    for axis, leaves in enumerate(own):
        out = axis - (drops and axis > dim)
        if axis != dim:
            loops.append((leaves, _whole(node, axis), [out] * len(node.outputs)))
        elif inner is not None and not drops:
            loops.append((inner, _whole(node, axis), [dim] * len(node.outputs)))
    return loops_of(known, node, loops)


def _cat(known: Known, node: Node) -> tuple[Loop, ...]:
    """All dimensions but the one along which tensors are put together; of `stack` that one is new."""
    dim_of = node.constants.get("dim", 0)
    output = node.outputs[0]
    rank = len(known.value(output).shape)
    dim = int(dim_of) % rank if isinstance(dim_of, int) else 0
    stacked = node.target.endswith("stack")
    names = [name for _, name in node.tensors]
    if any(len(known.value(name).shape) != rank - stacked for name in names):
        return ()
    own = list(known.of[names[0]])
    for name in names[1:]:
        for axis, leaves in enumerate(known.of[name]):
            if stacked or axis != dim:
                known.join(own[axis], leaves)
    new = known.dimensions.new(known.value(output).shape[dim])
    known.set(output, [*own[:dim], new, *own[dim + (not stacked) :]])
    axes = [axis for axis in range(len(own)) if stacked or axis != dim]
    return loops_of(known, node, [(own[a], [a] * len(names), [a + (stacked and a >= dim)]) for a in axes])


def _repeat_interleave(known: Known, node: Node) -> tuple[Loop, ...]:
    """Every entry several times, one after the other: the dimension itself too, outside of its copies."""
    own, dim, times = known.of[node.tensors[0][1]], node.constants.get("dim"), node.constants.get("repeats")
    if not isinstance(dim, int) or not isinstance(times, int):
        return ()
    dim %= len(own)
    known.set(node.outputs[0], [*own[:dim], (*own[dim], *known.dimensions.new(times)), *own[dim + 1 :]])
    return loops_of(known, node, [(leaves, [axis], [axis]) for axis, leaves in enumerate(own)])


def _pool(known: Known, node: Node) -> tuple[Loop, ...]:
    """Samples and channels of an image."""
    own = known.of[node.tensors[0][1]]
    for output in node.outputs:
        new = [known.dimensions.new(length) for length in known.value(output).shape]
        known.set(output, [*own[:2], *new[2:]])
    return loops_of(known, node, [(own[axis], [axis], [axis] * len(node.outputs)) for axis in range(min(2, len(own)))])


def _beside(known: Known, node: Node) -> tuple[Loop, ...]:
    """Every dimension but ``dim``, as long in all tensors: the largest entries, entries picked or put by indices."""
    own, dim = known.of[node.tensors[0][1]], node.constants.get("dim", -1)
    shapes = [known.value(name).shape for name in (*(name for _, name in node.tensors), *node.outputs)]
    if not isinstance(dim, int) or not own or any(len(shape) != len(own) for shape in shapes):
        return ()
    axes = [axis for axis in range(len(own)) if axis != dim % len(own) and len({shape[axis] for shape in shapes}) == 1]
    for _, name in node.tensors[1:]:
        for axis in axes:
            known.join(own[axis], known.of[name][axis])
    for output in node.outputs:
        lengths = known.value(output).shape
        known.set(output, [own[at] if at in axes else known.dimensions.new(n) for at, n in enumerate(lengths)])
    every, out = len(node.tensors), len(node.outputs)
    return loops_of(known, node, [(own[axis], [axis] * every, [axis] * out) for axis in axes])


def _padded(known: Known, node: Node) -> tuple[Loop, ...]:
    """Every dimension but the last, where that one alone is padded."""
    pad = node.constants.get("pad")
    return _beside(known, node) if isinstance(pad, (list, tuple)) and len(pad) == 2 else ()


def _stays(known: Known, node: Node) -> tuple[Loop, ...]:
    """Means and the largest: the dimensions that stay."""
    return tuple(loop for loop in _reduction(known, node) if None not in loop.outputs)


def _of_samples(known: Known, node: Node) -> tuple[Loop, ...]:
    """Room that is made to be written into, and what is written: samples alone, by which all of it is divided alike."""
    shapes = [known.value(name).shape for name in (*(name for _, name in node.tensors), *node.outputs)]
    if any(not shape or shape[0] != shapes[0][0] for shape in shapes):
        return ()
    first = known.of[node.tensors[0][1]][0]
    for _, name in node.tensors[1:]:
        known.join(first, known.of[name][0])
    for output in node.outputs:
        known.set(output, [first, *(known.dimensions.new(length) for length in known.value(output).shape[1:])])
    return loops_of(known, node, [(first, [0] * len(node.tensors), [0] * len(node.outputs))])


POINTWISE = (
    "add sub mul div neg relu gelu silu sigmoid tanh exp rsqrt sqrt pow cos sin where clamp dropout to _to_copy"
    " masked_fill clone contiguous square abs leaky_relu hardtanh relu6 hardswish"
)
VIEWS = (
    "view reshape flatten unflatten _unsafe_view transpose permute t mT unsqueeze squeeze expand expand_as broadcast_to"
    " detach alias"
)
RULES: Mapping[str, Rule] = {
    **rules_named(POINTWISE, _pointwise),
    **rules_named("linear", _linear),
    **rules_named("mm matmul", _matrices("self", "other")),
    **rules_named("bmm", _matrices("self", "mat2")),
    **rules_named("conv1d conv2d conv3d", _convolution),
    **rules_named("batch_norm", _batch_norm),
    **rules_named("layer_norm rms_norm", _over_rows("normalized_shape")),
    **rules_named("softmax log_softmax", _along),
    **rules_named("sum", _reduction),
    **rules_named("scaled_dot_product_attention", _attention),
    **rules_named("embedding", _embedding),
    **rules_named("cross_entropy_loss", _cross_entropy),
    **rules_named(VIEWS, _view),
    **rules_named("slice select narrow chunk split split_with_sizes unbind", _piece),
    **rules_named("cat stack", _cat),
    **rules_named("repeat_interleave", _repeat_interleave),
    **rules_named("mean amax amin", _stays),
    **rules_named("topk gather scatter max min cumsum", _beside),
    **rules_named("pad", _padded),
    **rules_named("new_empty copy", _of_samples),
    **ROUTED,
    **rules_named("max_pool2d avg_pool2d adaptive_avg_pool2d", _pool),
}
"""By call."""
