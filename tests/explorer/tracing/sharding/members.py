"""All members of a group run, one after the other in one process: what divided calls compute, without devices."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from explorer.tracing.captured import Captured, Node, Value
from explorer.tracing.fold import is_bookkeeping
from explorer.tracing.sharding.choices import PARTIAL, WHOLE, Choices, Option
from explorer.tracing.sharding.local import Part
from solvers.problem.collectives import COLLECTIVE, REGROUP, divided_along, is_outer
from tests.explorer.tracing.sharding import routed

SIZES = ("size", "shape")
"""Arguments that state the shape of what comes out."""
Tensors = dict[str, torch.Tensor]


def random_value(value: Value, most: int) -> torch.Tensor:
    """most: of integers, exclusive."""
    if value.is_float:
        return torch.rand(value.shape, dtype=torch.float64) + 0.5
    if value.dtype == "bool":
        return torch.rand(value.shape) > 0.5
    return torch.randint(0, max(most, 1), value.shape)


def call(name: str, arguments: dict[str, Any]) -> Any:
    """The overload that takes arguments of these names and kinds."""
    packet = getattr(torch.ops.aten, name)
    for overload in (getattr(packet, each) for each in packet.overloads()):  # of which there is one object each
        taken = {each.name: str(each.type) for each in overload._schema.arguments}
        tensors = {key for key, value in arguments.items() if isinstance(value, torch.Tensor)}
        stated = {key for key, kind in taken.items() if kind == "Tensor"}
        if (
            arguments.keys() <= taken.keys()
            and "out" not in taken
            and stated <= tensors | (taken.keys() - arguments.keys())
        ):
            try:
                return overload(**arguments)
            except (RuntimeError, TypeError):
                continue
    raise AssertionError(f"no overload of {name} takes {sorted(arguments)}")


def rows(table: torch.Tensor, indices: torch.Tensor, member: int) -> torch.Tensor:
    """Of a table of which this member has some rows; nothing for others."""
    return routed.rows_of(table, indices - member * len(table))


def share(choices: Choices, name: str, place: int, leaf: int, tensor: torch.Tensor, member: int) -> torch.Tensor:
    """A member's part of a value along one leaf of a dimension."""
    if each := choices.slots(name, place, leaf):
        return tensor.index_select(place, torch.tensor(routed.slots(choices)[member * each : (member + 1) * each]))
    leaves = choices.leaves(name, place)
    lengths = [choices.known.dimensions.lengths[each] for each in leaves]
    at = leaves.index(leaf)
    shape = tensor.shape
    separate = tensor.reshape(*shape[:place], *lengths, *shape[place + 1 :])
    part = separate.narrow(place + at, member * (lengths[at] // choices.degree), lengths[at] // choices.degree)
    return part.reshape(*shape[:place], math.prod(lengths) // choices.degree, *shape[place + 1 :])


def run_whole(captured: Captured, given: Mapping[str, torch.Tensor]) -> Tensors:
    values = dict(given)
    for node in captured.nodes:
        if not is_bookkeeping(captured, node):
            _store(values, node, run_node(captured, node, [values[name] for _, name in node.tensors]))
    return values


def run_members(
    choices: Choices,
    labels: Mapping[int, Option],
    part: Captured,
    given: Mapping[str, torch.Tensor],
    forgotten: str = "",
) -> list[Tensors]:
    """What every member computes of ``part``, which is what one of them runs. given: parameters, buffers, inputs.
    forgotten: the name of an exchange whose partial sums nobody adds up."""
    option_of = {choices.captured.nodes[at].name: option for at, option in labels.items()}
    members: list[Tensors] = [_given(choices, labels, part, given, member) for member in range(choices.degree)]
    for node in part.nodes:
        if not is_bookkeeping(part, node):
            _run_call(choices, option_of.get(node.name), part, node, members, add_up=node.name != forgotten)
    return members


def _run_call(
    choices: Choices, option: Option | None, part: Captured, node: Node, members: list[Tensors], *, add_up: bool
) -> None:
    names = (*node.outputs, *(name for _, name in node.tensors))
    if node.target == f"{COLLECTIVE}all_to_all" and any(routed.is_by_expert(part, name) for name in names):
        for values, rows_of in zip(members, routed.exchanged(choices, part, node, members), strict=True):
            values[node.outputs[0]] = rows_of
    elif node.target.startswith(COLLECTIVE):
        _exchange(choices, node, members, add_up=add_up)
    elif option is not None and option.rows:
        _vocabulary_parallel(node, members)
    elif option is not None and option.ring:
        _ring_attention(node, members)
    else:
        for member, values in enumerate(members):
            _store(values, node, _run_share(choices, part, node, option, members, member))


def run_twice(outer: Part, inner: Part, part: Captured, given: Mapping[str, torch.Tensor]) -> list[list[Tensors]]:
    """What every member of every inner group computes of ``part``, which is what one of them runs.

    outer: how the model is divided among inner groups; inner: how what one of them runs is over its members."""
    assert part.outer is not None
    group, count = part.outer
    options = [
        {one.choices.captured.nodes[at].name: option for at, option in one.labels.items()} for one in (outer, inner)
    ]
    groups = [
        [_given(inner.choices, inner.labels, part, _given(outer.choices, outer.labels, group, given, one), member)
         for member in range(inner.choices.degree)]
        for one in range(count)
    ]  # fmt: skip
    for node in part.nodes:
        if is_bookkeeping(part, node):
            continue
        among = options[0].get(node.name)
        like = [[members[member] for members in groups] for member in range(inner.choices.degree)]
        if is_outer(node.target):
            for members in like:
                _exchange_across(group, node, members)
        elif among is not None and among.ring:
            for members in like:
                _ring_attention(node, members)
        else:
            for members in groups:
                _run_call(inner.choices, options[1].get(node.name), part, node, members, add_up=True)
            if among is not None and among.leaf != WHOLE and node.target == "aten.cross_entropy_loss":
                for values in (values for members in groups for values in members):
                    values[node.outputs[0]] /= count
    return groups


def _exchange_across(group: Captured, node: Node, members: list[Tensors]) -> None:
    """A change of placement among inner groups, of what one member of each has. group: what each group runs."""
    source, output, kind = node.tensors[0][1], node.outputs[0], node.target.rpartition(".")[2]
    before = next(one.tensors[0][1] for one in group.nodes if output in one.outputs)
    read, made = (divided_along(group.whole[name].placement) for name in (before, output))
    tensors = [values[source] for values in members]
    if kind in ("copy", "slice"):
        whole = tensors[0]
    elif kind in ("all_reduce", "reduce_scatter"):
        whole = torch.stack(tensors).sum(0)
    else:
        assert read is not None
        dim, pieces = read
        separate = [each.unflatten(dim, (pieces, -1)) for each in tensors]
        whole = torch.cat(separate, dim + 1).flatten(dim, dim + 1)
    for number, values in enumerate(members):
        own = whole
        if made is not None:
            dim, pieces = made
            own = whole.unflatten(dim, (pieces, len(members), -1)).select(dim + 1, number).flatten(dim, dim + 1)
        values[output] = own.clone()


def run_parts(
    parts: Mapping[int, Part],
    degree_of: Mapping[int, int],
    part: Captured,
    given: Mapping[str, torch.Tensor],
    forgotten: str = "",
) -> dict[int, list[Tensors]]:
    """What every member of every group computes, where calls are divided over groups of different sizes. degree_of: of
    every call, by position. forgotten: as `run_members` takes it, or the name of a regrouping whose receivers get what
    belongs to the first of them."""
    known = next(iter(parts.values())).choices
    at_of = {known.captured.nodes[at].name: at for at in degree_of}
    groups: dict[int, list[Tensors]] = {}
    for degree, one in parts.items():
        labels = {at: one.labels[at] for at, of in degree_of.items() if of == degree}
        groups[degree] = [_given(one.choices, labels, part, given, member) for member in range(degree)]
    leaf_of = {name: leaf for degree, one in parts.items() for name, leaf in _native(one, degree_of, degree).items()}
    for node in part.nodes:
        if is_bookkeeping(part, node):
            continue
        if node.target == f"{COLLECTIVE}{REGROUP}":
            source, output = node.tensors[0][1], node.outputs[0]
            sender, receiver = (part.whole[name].members for name in (source, output))
            value, _, leaf = output.rpartition("@")[2].removeprefix(REGROUP).partition(".")
            value = output.partition("@")[0]
            tensors = [values[source] for values in groups[sender]]
            whole = (
                _together(parts[sender].choices, value, tensors, leaf_of[source]) if source in leaf_of else tensors[0]
            )
            for member, values in enumerate(groups[receiver]):
                of = 0 if node.name == forgotten else member
                values[output] = whole.clone() if not leaf else _share(parts[receiver].choices, value, leaf, whole, of)
            leaf_of |= {output: int(leaf)} if leaf else {}
            continue
        members, choices = groups[node.members], parts[node.members].choices
        if node.target.startswith(COLLECTIVE):
            after = _exchange(choices, node, members, node.name != forgotten, leaf_of)
            leaf_of |= {node.outputs[0]: int(after)} if after else {}
            continue
        option = parts[node.members].labels[at_of[node.name]] if node.name in at_of else None
        if option is not None and option.rows:
            _vocabulary_parallel(node, members)
            continue
        for member, values in enumerate(members):
            _store(values, node, _run_share(choices, part, node, option, members, member))
    return groups


def _native(part: Part, degree_of: Mapping[int, int], degree: int) -> dict[str, int]:
    """Along which leaf the outputs of the calls of a degree are divided."""
    return {
        name: state
        for at, of in degree_of.items()
        if of == degree
        for name, state in zip(part.choices.captured.nodes[at].outputs, part.labels[at].outputs, strict=True)
        if state >= 0
    }


def _share(choices: Choices, value: str, leaf: str, whole: torch.Tensor, member: int) -> torch.Tensor:
    axis = next(a for a in range(whole.dim()) if int(leaf) in choices.leaves(value, a))
    return share(choices, value, axis, int(leaf), whole, member)


def _given(
    choices: Choices, labels: Mapping[int, Option], part: Captured, given: Mapping[str, torch.Tensor], member: int
) -> Tensors:
    shares = dict(given)
    for at, option in labels.items():
        for (_, name), needed, place in zip(
            choices.captured.nodes[at].tensors, option.inputs, option.places, strict=True
        ):
            source = choices.source(name)
            held = source in part.parameters or source in choices.captured.buffers
            if held and choices.of_source(name, needed) >= 0:
                axis = place if source == name else None
                if axis is None:
                    axis = next(a for a in range(given[source].dim()) if needed in choices.leaves(source, a))
                shares[source] = share(choices, source, axis, needed, given[source], member)
    return shares


def _run_share(
    choices: Choices, part: Captured, node: Node, option: Option | None, members: Sequence[Tensors], member: int
) -> Sequence[torch.Tensor]:
    tensors = [members[member][name].clone() for _, name in node.tensors]
    if (made := routed.run(choices, part, node, members, member)) is not None:
        return [made]
    if option is None or option.leaf == WHOLE:
        return run_node(part, node, tensors)
    if node.target == "aten.embedding" and option.places[0] == 0:
        return [rows(tensors[0], tensors[1], member)]
    if option.outputs[0] == PARTIAL and member:
        for position, (argument, _) in enumerate(node.tensors):
            if argument == "bias":
                tensors[position] = torch.zeros_like(tensors[position])
    result = run_node(part, node, tensors, choices.captured)
    return [result[0] / choices.degree] if node.target == "aten.cross_entropy_loss" else result


def run_node(
    captured: Captured, node: Node, tensors: Sequence[torch.Tensor], whole: Captured | None = None
) -> Sequence[torch.Tensor]:
    """A call, with sizes as its values have them in ``captured``."""
    grouped: dict[str, list[torch.Tensor]] = defaultdict(list)
    for (argument, _), tensor in zip(node.tensors, tensors, strict=True):
        grouped[argument].append(tensor)
    arguments: dict[str, Any] = dict(node.constants)
    name = node.target.removeprefix("aten.")
    local = list(captured.values[node.outputs[0]].shape)
    for key in SIZES:
        if isinstance(arguments.get(key), (list, tuple)) and name != "cat":
            arguments[key] = local
    if name == "unflatten":
        dim = int(arguments["dim"]) % tensors[0].dim()
        arguments["sizes"] = local[dim : dim + len(arguments["sizes"])]
    if name in ("conv2d", "conv1d") and arguments.get("groups", 1) > 1:
        arguments["groups"] = tensors[0].shape[1] // tensors[1].shape[1]
    if name == "dropout":
        arguments["train"] = False
    if name == "histc":
        return [torch.bincount(tensors[0].long(), minlength=int(arguments["bins"])).double()]
    if "grouped_mm" in name:
        return [routed.product(*tensors)]
    if name == "sort":
        return routed.in_order(tensors[0])
    if name in ("to", "_to_copy", "type_as"):
        return [tensors[0].clone() if not tensors[0].is_floating_point() else tensors[0].double()]
    if "dtype" in arguments and arguments["dtype"] in (torch.float32, None) and name not in ("arange",):
        arguments["dtype"] = torch.float64 if arguments["dtype"] is torch.float32 else None
    lists = name in ("cat", "stack", "broadcast_tensors")
    of_lists = {"indices"} if name.startswith("index") else set(grouped) if lists else set()
    arguments |= {argument: each if argument in of_lists else each[0] for argument, each in grouped.items()}
    result = call(name, arguments)
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _store(values: Tensors, node: Node, results: Sequence[torch.Tensor]) -> None:
    for name, result in zip(node.outputs, results, strict=True):
        values[name] = result


def _exchange(
    choices: Choices, node: Node, members: list[Tensors], add_up: bool = True, leaf_of: Mapping[str, int] | None = None
) -> str:
    """A change of placement, by what its name says: of what (before the @), and into which leaf (at its end), which is
    returned. leaf_of: along which leaf tensors are divided here, where calls are divided over groups of several sizes.
    """
    source, output = node.tensors[0][1], node.outputs[0]
    kind = node.target.removeprefix(COLLECTIVE)
    value = output.partition("@~" if "@~" in output else "@")[0].removesuffix("@")
    tensors = [values[source] for values in members]
    leaf = output.rpartition("@")[2].removeprefix("~").removeprefix(kind).partition(":")[0]
    if kind in ("all_reduce", "reduce_scatter"):
        total: torch.Tensor = sum(tensors[1:], tensors[0]) if add_up else tensors[0]
        whole = total
    elif kind in ("copy", "slice"):
        whole = tensors[0]
    else:  # all_gather and all_to_all: put together along what it was divided by
        whole = _together(choices, value, tensors, (leaf_of or _DIVIDED[id(choices)])[source if leaf_of else value])
    for member, values in enumerate(members):
        values[output] = _share(choices, value, leaf, whole, member) if leaf else whole.clone()
    return leaf


def _together(choices: Choices, value: str, tensors: Sequence[torch.Tensor], leaf: int) -> torch.Tensor:
    """The whole of a value from the members' shares of it, wherever its leaf is in its dimension."""
    shape = choices.captured.values[value].shape
    axis = next(a for a, (have, all_) in enumerate(zip(tensors[0].shape, shape, strict=True)) if have != all_)
    leaves = choices.leaves(value, axis)
    lengths = [choices.known.dimensions.lengths[each] for each in leaves]
    at = leaves.index(leaf)
    separate = [*lengths]
    separate[at] //= choices.degree
    parts = [each.reshape(*shape[:axis], *separate, *shape[axis + 1 :]) for each in tensors]
    return torch.cat(parts, axis + at).reshape(shape)


_DIVIDED: dict[int, dict[str, int]] = {}


def note_divided(choices: Choices, labels: Mapping[int, Option]) -> None:
    """Along which leaf every output is divided, for `_together`."""
    _DIVIDED[id(choices)] = {
        name: state
        for at, option in labels.items()
        for name, state in zip(choices.captured.nodes[at].outputs, option.outputs, strict=True)
        if state >= 0
    }


def _vocabulary_parallel(node: Node, members: list[Tensors]) -> None:
    """Cross-entropy over classes that are divided: the largest score and the sum of exponentials of each row are
    exchanged, the score of the target is that of the member that has it."""
    logits = [values[node.tensors[0][1]] for values in members]
    targets = members[0][node.tensors[1][1]]
    largest = torch.stack([each.max(-1).values for each in logits]).max(0).values
    total = sum(torch.exp(each - largest[:, None]).sum(-1) for each in logits)
    normal = largest + torch.log(torch.as_tensor(total))
    own = torch.nn.functional.one_hot(targets, logits[0].shape[-1] * len(logits))
    classes = own.reshape(len(targets), len(logits), -1)
    for member, values in enumerate(members):
        score = (logits[member] * classes[:, member]).sum(-1)
        loss = (normal if member == 0 else torch.zeros_like(normal)) - score
        values[node.outputs[0]] = loss.mean()


def _ring_attention(node: Node, members: list[Tensors]) -> None:
    """Of each member's queries with the keys and values of all, in one place: what goes round comes to that."""
    rank = members[0][node.tensor("query") or ""].dim()
    keys, values = (torch.cat([own[node.tensor(name) or ""] for own in members], rank - 2) for name in ("key", "value"))
    for member, own in enumerate(members):
        query = own[node.tensor("query") or ""]
        groups = query.shape[-3] // keys.shape[-3]
        scores = query @ keys.repeat_interleave(groups, -3).mT * query.shape[-1] ** -0.5
        if node.constants.get("is_causal"):
            at = torch.arange(query.shape[-2]) + member * query.shape[-2]
            scores = scores.masked_fill(torch.arange(keys.shape[-2]) > at[:, None], -torch.inf)
        mask = own.get(node.tensor("attn_mask") or "")
        if mask is not None:
            mask = mask.narrow(-2, member * query.shape[-2], query.shape[-2]) if mask.shape[-2] > 1 else mask
            scores = scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, -torch.inf)
        own[node.outputs[0]] = scores.softmax(-1) @ values.repeat_interleave(groups, -3)


def _held_as(choices: Choices, at: int, option: Option) -> Iterator[tuple[str, tuple[int, int | None]]]:
    """How an option needs the parameters and buffers that its call reads."""
    names = [name for _, name in choices.captured.nodes[at].tensors]
    for name, needed, place in zip(names, option.inputs, option.places, strict=True):
        if (source := choices.source(name)) in {*choices.captured.parameters, *choices.captured.buffers}:
            divided = choices.of_source(name, needed) >= 0
            yield source, (needed, place) if divided else (WHOLE, None)


def any_labels(choices: Choices, chance: random.Random) -> Mapping[int, Option]:
    """An option of every call; readers of one parameter divide it alike."""
    held: dict[str, tuple[int, int | None]] = {}
    labels: dict[int, Option] = {}
    for at, options in choices.options.items():
        read = {option: list(_held_as(choices, at, option)) for option in options}
        fits = [option for option in options if all(held.get(name, state) == state for name, state in read[option])]
        labels[at] = chance.choice(fits[1:] or fits)
        held.update(read[labels[at]])
    return labels
