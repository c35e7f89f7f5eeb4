"""What a call makes of tensors that are divided over a group: a second reading, from shapes and placements alone.

A tensor that is divided is so along one digit of one dimension: dimension = outer x members x inner, and a member has
the entries of its digit. Views that only look at entries in another shape keep their order, so that the digit is found
again from how many entries are outside of it (`_reshaped`); every other call has letters for those of its dimensions
that it may be divided along, as in an einsum: operands that have the letter are divided there, others are whole.
Nothing here knows how placements were chosen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from solvers.problem.collectives import PARTIAL, UNSUMMED, WHOLE, by_expert, shard

Shape = tuple[int, ...]
Letter = str | None
"""Of a dimension; None: the call is never divided along it."""
_SHARD = re.compile(r"S\((\d+)(?:,(\d+))?\)|E\((\d+)(?:,([1-9]\d*))?\)")


REPEATS = ("aten.expand", "aten.broadcast_to")


class Digit(NamedTuple):
    """dim: which dimension is divided; outer: into so many pieces first. experts: whether its rows are sorted by
    expert, and a member has those of its own. slots: of a dimension with an entry for every expert, how many experts a
    member has where some have replicas, else 0."""

    dim: int
    outer: int
    experts: bool = False
    slots: int = 0

    def __str__(self) -> str:
        return by_expert(self.dim, self.slots) if self.experts or self.slots else shard(self.dim, self.outer)


class Call(NamedTuple):
    """A call to be judged. arguments: names of its inputs. shapes: of all of each input; made: of each output. routes:
    what its integers say of rows that are sorted by expert (`solvers.verify.routing`), "" for nothing."""

    target: str
    members: int
    arguments: tuple[str, ...]
    shapes: tuple[Shape, ...]
    made: tuple[Shape, ...]
    integers: Mapping[str, tuple[int, ...]]
    routes: tuple[str, ...] = ()

    def integer(self, name: str, default: int = 0) -> int:
        return self.integers.get(name, (default,))[0]


class Letters(NamedTuple):
    """inputs, outputs: a letter or none for every dimension. sums: letters of which the outputs that lack them are
    partial sums. statistics: letters along which members exchange two numbers for every entry of the second input."""

    inputs: Sequence[Sequence[Letter]]
    outputs: Sequence[Sequence[Letter]]
    sums: str = ""
    statistics: str = ""


def digit_of(placement: str, shape: Shape, members: int) -> Digit | None:
    """None where it is whole or a partial sum. Raises ValueError for what is no placement of such a tensor."""
    if placement in (WHOLE, UNSUMMED, PARTIAL):
        return None
    match = _SHARD.fullmatch(placement)
    if match is None:
        raise ValueError(f"{placement!r} is no placement")
    digit = Digit(int(match[1] or match[3]), int(match[2] or 1), bool(match[3] and not match[4]), int(match[4] or 0))
    if digit.slots and digit.dim < len(shape) and digit.slots <= shape[digit.dim] <= digit.slots * members:
        return digit
    if digit.slots or digit.dim >= len(shape) or shape[digit.dim] % (digit.outer * members) or digit.outer < 1:
        raise ValueError(f"{placement} divides nothing of {list(shape)} over {members} members")
    return digit


def outputs_of(call: Call, placements: Sequence[str]) -> tuple[list[str], bool] | None:
    """The placement of every output, given those of the inputs, of which one is divided or a partial sum, and whether
    members exchange statistics within. None where the call cannot be divided so."""
    if call.target in _LOOKS:
        made = [_looked_at(call, placements[0], number) for number in range(len(call.made))]
        rest = all(each in (WHOLE, UNSUMMED) for each in placements[1:])
        return (made, False) if rest and None not in made else None  # type: ignore[return-value]
    rule = _RULES.get(call.target)
    letters = rule(call) if rule is not None else None
    if letters is None or PARTIAL in placements:
        return None
    digits = digits_of(call, placements)
    read = list(zip(letters.inputs, digits, strict=True))
    named = {(marks[digit.dim], digit._replace(dim=0)) for marks, digit in read if digit is not None}
    if len(named) != 1:
        return None
    (letter, like) = named.pop()
    if letter is None:
        return None
    for marks, digit in read:
        if (letter in marks) != (digit is not None):
            return None
    placements = []
    for marks, shape in zip(letters.outputs, call.made, strict=True):
        if letter in marks:
            placements.append(str(like._replace(dim=list(marks).index(letter))))
            digit_of(placements[-1], shape, call.members)
        elif letter in letters.sums and not like.slots:  # replicas would be counted twice
            placements.append(PARTIAL)
        else:
            return None
    return placements, letter in letters.statistics


def repeats(call: Call, before: str, after: str) -> bool:
    """Whether members make their shares of what repeats a tensor that all have whole: it is divided along a dimension
    that repeats, so that a share of it is a smaller number of repetitions."""
    if call.target not in REPEATS or before not in (WHOLE, UNSUMMED):
        return False
    digit = digit_of(after, call.made[0], call.members)
    if digit is None or digit.experts:
        return False
    dim = digit.dim - len(call.made[0]) + len(call.shapes[0])
    return dim < 0 or call.shapes[0][dim] == 1


def digits_of(call: Call, placements: Sequence[str]) -> list[Digit | None]:
    """Of the call's inputs."""
    return [digit_of(each, shape, call.members) for each, shape in zip(placements, call.shapes, strict=True)]


def _names(prefix: str, count: int) -> list[Letter]:
    return [chr(ord(prefix) + number) for number in range(count)]


def _rows(call: Call) -> list[Letter]:
    return _names("A", len(call.shapes[0]))


def _aligned(shape: Shape, result: Shape, letters: Sequence[Letter]) -> list[Letter]:
    """Of an operand that is broadcast to a result."""
    behind = len(result) - len(shape)
    return [letters[at + behind] if length == result[at + behind] else None for at, length in enumerate(shape)]


def _pointwise(call: Call) -> Letters:
    result = call.made[0]
    letters: list[Letter] = [
        mark if length > 1 else None for mark, length in zip(_names("A", len(result)), result, strict=True)
    ]
    inputs = [_aligned(shape, result, letters) for shape in call.shapes]
    return Letters(inputs, [letters] * len(call.made))


def _product(call: Call, left: Sequence[Letter], right: Sequence[Letter], operands: tuple[str, str]) -> Letters:
    """Of two operands whose last, and last but one or last, dimension is summed over: the letter k."""
    out: list[Letter] = [*left[:-1], "n"]
    marks = {operands[0]: left, operands[1]: right}
    rest = [
        _aligned(shape, call.made[0], out) if name not in marks else marks[name]
        for name, shape in zip(call.arguments, call.shapes, strict=True)
    ]
    return Letters(rest, [out], sums="k")


def _linear(call: Call) -> Letters:
    rows = _names("A", len(call.shapes[call.arguments.index("input")]) - 1)
    return _product(call, [*rows, "k"], ["n", "k"], ("input", "weight"))


def _matrices(call: Call) -> Letters | None:
    if len(call.shapes) != 2 or min(map(len, call.shapes)) < 2:
        return None
    one, other = call.shapes
    if len(other) > 2 and one[:-2] != other[:-2]:
        return None
    batch = _names("A", len(one) - 2)
    right = [*(batch if len(other) > 2 else []), "k", "n"]
    return Letters([[*batch, "m", "k"], right], [[*batch, "m", "n"]], sums="k")


def _convolution(call: Call) -> Letters | None:
    image, weight = (call.shapes[call.arguments.index(name)] for name in ("input", "weight"))
    groups, inner = call.integer("groups", 1), [None] * (len(image) - 2)
    channels, made = ("c", "o") if groups == 1 else ("o", "o") if groups == weight[0] == image[1] else (None, None)
    marks: dict[str, list[Letter]] = {
        "input": ["b", channels, *inner],
        "weight": [made, "c" if groups == 1 else None, *inner],
        "bias": [made],
    }
    return Letters([marks.get(name, []) for name in call.arguments], [["b", made, *inner]], sums="c")


def _batch_norm(call: Call) -> Letters:
    image: list[Letter] = [None, "c", *[None] * (len(call.shapes[0]) - 2)]
    return Letters([image, *(["c"] for _ in call.shapes[1:])], [image] * len(call.made))


def _norm(call: Call) -> Letters:
    inner = len(call.integers.get("normalized_shape", (0,)))
    letters = [*_rows(call)[:-inner], *[None] * inner]
    rest = [[None] * len(shape) for shape in call.shapes[1:]]
    return Letters([letters, *rest], [letters[: len(shape)] for shape in call.made])


def _along(call: Call) -> Letters:
    letters = _rows(call)
    letters[call.integer("dim")] = None
    return Letters([letters], [letters])


def _sum(call: Call) -> Letters:
    letters = _rows(call)
    gone = {dim % len(letters) for dim in call.integers.get("dim", range(len(letters)))}
    keepdim = len(call.made[0]) == len(letters)
    out = [None if at in gone else mark for at, mark in enumerate(letters) if keepdim or at not in gone]
    return Letters([letters], [out], sums="".join(letters[at] or "" for at in gone))


def _attention(call: Call) -> Letters:
    """Samples and heads; of grouped queries all the heads of queries go with those of their keys."""
    query, key = (call.shapes[call.arguments.index(name)] for name in ("query", "key"))
    letters = [*_names("A", len(query) - 2), None, None]
    for at, (many, few) in enumerate(zip(query[:-2], key[:-2], strict=True)):
        if many % few:
            letters[at] = None
    inputs = [
        letters if name != "attn_mask" else _aligned(shape, (*query[:-1], key[-2]), letters)
        for name, shape in zip(call.arguments, call.shapes, strict=True)
    ]
    return Letters(inputs, [letters])


def _stays(call: Call) -> Letters:
    """Of means and the largest: dimensions that stay."""
    return _sum(call)._replace(sums="")


def _beside(call: Call) -> Letters | None:
    """Largest entries, entries picked or put: every dimension but the one that is looked through, as long in all."""
    shapes = (*call.shapes, *call.made)
    if len(set(map(len, shapes))) > 1:
        return None
    letters = _rows(call)
    letters[call.integer("dim", -1)] = None
    alike = [len(set(lengths)) == 1 for lengths in zip(*shapes, strict=True)]
    letters = [mark if same else None for mark, same in zip(letters, alike, strict=True)]
    return Letters([letters] * len(call.shapes), [letters] * len(call.made))


def _padded(call: Call) -> Letters | None:
    """Padding of the last dimension: all others."""
    return _beside(call) if len(call.integers.get("pad", ())) == 2 else None


def _of_samples(call: Call) -> Letters | None:
    """Room that is made, and what is written into it: the first dimension."""
    shapes = (*call.shapes, *call.made)
    if any(not shape or shape[0] != shapes[0][0] for shape in shapes):
        return None
    inputs, outputs = ([["b", *[None] * (len(shape) - 1)] for shape in some] for some in (call.shapes, call.made))
    return Letters(inputs, outputs)


def _embedding(call: Call) -> Letters:
    places = _names("A", len(call.shapes[1]))
    return Letters([["v", "w"], places, *([None] * len(shape) for shape in call.shapes[2:])], [[*places, "w"]], "v")


def _cross_entropy(call: Call) -> Letters | None:
    if tuple(map(len, call.shapes)) != (2, 1):
        return None
    return Letters([["r", "v"], ["r"]], [["r"] * len(call.made[0])], sums="rv", statistics="v")


def _cat(call: Call) -> Letters | None:
    rank, stacked = len(call.made[0]), call.target.endswith("stack")
    dim = call.integer("dim") % rank
    if any(len(shape) != rank - stacked for shape in call.shapes):
        return None
    letters = _names("A", rank)
    letters[dim] = None
    inner = letters[:dim] + letters[dim + 1 :] if stacked else letters
    return Letters([inner] * len(call.shapes), [letters])


def _repeated(call: Call) -> Letters:
    return Letters([_rows(call)], [_rows(call)])


def _pool(call: Call) -> Letters:
    letters: list[Letter] = ["b", "c", *[None] * (len(call.shapes[0]) - 2)]
    return Letters([letters], [letters] * len(call.made))


def _looked_at(call: Call, placement: str, number: int) -> str | None:
    """Of an output of a view; None where a member's part of it is not in what it has."""
    shape, made = call.shapes[0], call.made[number]
    digit = digit_of(placement, shape, call.members)
    if digit is None:
        return placement
    digit_there = _LOOKS[call.target](call, digit, shape, made, number)
    of_experts = digit.experts or digit.slots
    if digit_there is None or (of_experts and (digit_there.outer > 1 or made[digit_there.dim] != shape[digit.dim])):
        return None
    return str(digit_there._replace(experts=digit.experts, slots=digit.slots))


def _reshaped(call: Call, digit: Digit, shape: Shape, made: Shape, _: int) -> Digit | None:
    """Entries keep their order: as many are outside of the digit as before."""
    outside, before = math.prod(shape[: digit.dim]) * digit.outer, 1
    members = 1 if digit.slots else call.members  # of experts some may be twice; the dimension stays as it is
    if math.prod(shape) != math.prod(made):
        return None
    for dim, length in enumerate(made):
        if outside % before == 0 and length % (outside // before * members) == 0 and length > 1:
            return Digit(dim, outside // before)
        before *= length
    return None


def _permuted(call: Call, digit: Digit, shape: Shape, made: Shape, _: int) -> Digit | None:
    order = list(range(len(shape)))
    if call.target == "aten.permute":
        order = [dim % len(shape) for dim in call.integers["dims"]]
    else:
        swapped = (call.integer("dim0", -2), call.integer("dim1", -1)) if "dim0" in call.integers else (-2, -1)
        first, second = (dim % len(shape) for dim in swapped)
        order[first], order[second] = order[second], order[first]
    return Digit(order.index(digit.dim), digit.outer)


def _expanded(call: Call, digit: Digit, shape: Shape, made: Shape, _: int) -> Digit | None:
    return Digit(digit.dim + len(made) - len(shape), digit.outer)


def _piece(call: Call, digit: Digit, shape: Shape, made: Shape, number: int) -> Digit | None:
    """Along another dimension; or a piece of the one that is divided, where every such piece is divided alike."""
    dim = call.integer("dim") % len(shape)
    dropped = len(made) < len(shape)
    if digit.dim != dim:
        return Digit(digit.dim - (dropped and digit.dim > dim), digit.outer)
    inner, length = shape[dim] // digit.outer, 0 if dropped else made[dim]
    if dropped or length % inner or call.integer("step", 1) != 1:
        return None
    many = call.target.rpartition(".")[2] in ("chunk", "split", "split_with_sizes")
    start = sum(each[dim] for each in call.made[:number]) if many else call.integer("start")
    return Digit(dim, length // inner) if start % inner == 0 else None


def _table(values: Mapping[str, object]) -> dict[str, object]:
    return {f"aten.{name}": value for names, value in values.items() for name in names.split()}


_RULES: Mapping[str, Callable[[Call], Letters | None]] = _table(  # type: ignore[assignment]
    {
        "add sub mul div neg relu gelu silu sigmoid tanh exp rsqrt sqrt pow cos sin where clamp dropout to _to_copy"
        " masked_fill clone contiguous square abs leaky_relu hardtanh relu6 hardswish": _pointwise,
        "linear": _linear,
        "mm matmul bmm": _matrices,
        "conv1d conv2d conv3d": _convolution,
        "batch_norm": _batch_norm,
        "layer_norm rms_norm": _norm,
        "softmax log_softmax": _along,
        "sum": _sum,
        "mean amax amin": _stays,
        "topk gather scatter max min cumsum": _beside,
        "pad": _padded,
        "new_empty copy": _of_samples,
        "scaled_dot_product_attention": _attention,
        "embedding": _embedding,
        "cross_entropy_loss": _cross_entropy,
        "cat stack": _cat,
        "repeat_interleave": _repeated,
        "max_pool2d avg_pool2d adaptive_avg_pool2d": _pool,
    }
)
_LOOKS: Mapping[str, Callable[[Call, Digit, Shape, Shape, int], Digit | None]] = _table(  # type: ignore[assignment]
    {
        "view reshape flatten unflatten _unsafe_view unsqueeze squeeze detach alias": _reshaped,
        "transpose permute t mT": _permuted,
        "expand expand_as broadcast_to": _expanded,
        "slice select narrow chunk split split_with_sizes unbind": _piece,
    }
)
