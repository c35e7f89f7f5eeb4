"""Rows of a mixture's tokens, sorted by the experts that these chose: what calls make of them, and along what a group
can divide them."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.tracing.captured import Node
from explorer.tracing.sharding.dimensions import Leaves
from explorer.tracing.sharding.loops import Known, Loop, Route, Rule, Where, loops_of, outer_leaves, rules_named


def _sort(known: Known, node: Node) -> tuple[Loop, ...]:
    """The experts that tokens chose, in order: each member those of its tokens. Sorting that order again finds the row
    of each choice."""
    name = node.tensors[0][1]
    own = known.of[name]
    if len(own) != 1 or known.value(name).is_float:
        return ()
    again = known.routes.get(name) is Route.ORDER
    tokens = known.dimensions.sorted_from(own[0]) if again else own[0]
    rows = tokens if again else known.dimensions.sort(own[0])
    routes = [Route.BACK] if again else [Route.EXPERT, Route.ORDER]
    for output, route in zip(reversed(node.outputs), reversed(routes), strict=False):
        known.routes[output] = route
    for output in node.outputs:
        known.set(output, [rows])
    return loops_of(known, node, [(tokens, [0], [0] * len(node.outputs))])


def _of_order(known: Known, node: Node) -> tuple[Loop, ...]:
    """Numbers for every sorted row: which token it is of, or room for them."""
    name, output = node.tensors[0][1], node.outputs[0]
    if known.routes.get(name) is not Route.ORDER or len(node.tensors) != 1:
        return ()
    known.set(output, known.of[name])
    if node.target == "aten.floor_divide":
        known.routes[output] = Route.TOKEN
    return loops_of(known, node, [(known.dimensions.sorted_from(known.of[name][0]), [0], [0])])


def _put(known: Known, node: Node) -> tuple[Loop, ...]:
    """Numbers put where an order says: which row each choice has become."""
    order = next((name for argument, name in node.tensors if argument == "indices"), "")
    output = node.outputs[0]
    if known.routes.get(order) is not Route.ORDER or known.value(output).shape != known.value(order).shape:
        return ()
    tokens = known.dimensions.sorted_from(known.of[order][0])
    known.set(output, [tokens])
    known.routes[output] = Route.BACK
    for _, name in node.tensors:
        if not known.dimensions.sorted_from(known.of[name][0]):
            known.join(known.of[name][0], tokens)
    return loops_of(known, node, [(tokens, [0] * len(node.tensors), [0])])


def _counted(known: Known, node: Node) -> tuple[Loop, ...]:
    """How many rows each expert has: of all tokens together a sum."""
    rows = known.of[node.tensors[0][1]]
    tokens = known.dimensions.sorted_from(rows[0]) if len(rows) == 1 else ()
    return loops_of(known, node, [(tokens, [0], [None])])


def _index(known: Known, node: Node) -> tuple[Loop, ...]:
    """Rows to experts and back. A member that has tokens picks the rows of these; one that has experts picks their rows
    of all tokens, and puts what it made of them where they came from, nothing for others, a part of a sum."""
    if len(node.tensors) != 2:
        return ()
    (_, source), (_, indices) = node.tensors
    route, own, rows = known.routes.get(indices), known.of[source], known.of[indices]
    made = (*known.value(indices).shape, *known.value(source).shape[1:])
    if route is None or not own or known.value(node.outputs[0]).shape != made:
        return ()
    loops: list[tuple[Leaves, list[Where], list[Where]]] = [
        (leaves, [axis, None], [axis]) for axis, leaves in enumerate(own) if axis
    ]
    if route is Route.EXPERT:
        experts = outer_leaves(known, rows[0], made[0] and known.value(source).shape[0])
        loops += [(known.dimensions.sorted_from(rows[0]), [None, 0], [0])]
        if experts is not None:
            known.join(experts, own[0])
            loops += [(own[0], [0, 0], [0])]
    elif route is Route.BACK:
        loops += [(rows[0], [0, 0], [0])]
        if len(leaves := known.dimensions.leaves(own[0])) > 1:
            loops += [(leaves[:1], [0, None], [None])]
    else:
        loops += [(own[0], [0, 0], [0]), (rows[0], [None, 0], [0])]
    known.set(node.outputs[0], [*rows, *own[1:]])
    return loops_of(known, node, loops)


def _grouped_product(known: Known, node: Node) -> tuple[Loop, ...]:
    """Rows sorted by expert, each times the matrix of its expert: columns, the sum; experts with their rows, and rows
    by the tokens that they are of, with all experts. Of rows that came from other inner groups the first two."""
    one, other = node.tensors[0][1], node.tensors[1][1]
    left, right = known.of[one], known.of[other]
    if (len(left), len(right)) != (2, 3):
        return ()
    experts, rest = known.value(other).shape[0], [None] * (len(node.tensors) - 2)
    known.join(left[1], right[1])
    loops: list[tuple[Leaves, list[Where], list[Where]]] = []
    tokens = known.dimensions.sorted_from(left[0])
    if tokens and known.value(one).shape[0] % experts == 0 and (outer := outer_leaves(known, left[0], experts)):
        known.join(outer, right[0])
        loops.append((right[0], [0, 0, *rest], [0]))
    known.set(node.outputs[0], [left[0], right[2]])
    loops += [
        (tokens, [0, None, *rest], [0]),
        (right[2], [None, 2, *rest], [1]),
        (right[1], [1, 1, *rest], [None]),
    ]
    return loops_of(known, node, loops)


ROUTED: Mapping[str, Rule] = {
    **rules_named("sort argsort", _sort),
    **rules_named("floor_divide empty_like", _of_order),
    **rules_named("index_put", _put),
    **rules_named("histc bincount", _counted),
    **rules_named("index", _index),
    **rules_named("_grouped_mm", _grouped_product),
    "transformers.grouped_mm_fallback": _grouped_product,
}
