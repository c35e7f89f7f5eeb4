"""What calls make of the rows of a mixture's tokens, sorted by the experts that these chose: a second reading.

What integers say of such rows is found again from the calls that make them: the sorted choices and their order, the
token of each row, and the row that a choice has become. A member that has tokens has their rows, S(0); one that has
experts has the rows of these, E(0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from solvers.problem.collectives import PARTIAL
from solvers.verify.placements import Call, Digit

EXPERT, ORDER, TOKEN, BACK = "expert", "order", "token", "back"
"""Of each sorted row its expert, which choice it is, and its token; of each choice its row."""
Digits = Sequence[Digit | None]


def routes_of(target: str, routes: Mapping[str, str], outputs: int) -> list[str]:
    """What a call's outputs say of sorted rows. routes: what its inputs say, by argument."""
    first = routes.get("self", "")
    if target in ("aten.sort", "aten.argsort"):
        sorting = [BACK] if first == ORDER else [EXPERT, ORDER]
        return (["", *sorting] if len(sorting) < outputs else sorting)[-outputs:]
    if target == "aten.floor_divide" and first == ORDER:
        return [TOKEN]
    if target == "aten.index_put" and routes.get("indices") == ORDER:
        return [BACK]
    return [""] * outputs


def _rows(call: Call, digits: Digits) -> list[str] | None:
    """Every tensor has the rows of one member's tokens."""
    one = digits[0]
    if one is None or one.dim or one.experts or one.slots or any(digit != one for digit in digits):
        return None
    return [str(one)] * len(call.made)


def _of_order(call: Call, digits: Digits) -> list[str] | None:
    return _rows(call, digits) if call.routes[:1] == (ORDER,) else None


def _put(call: Call, digits: Digits) -> list[str] | None:
    return _rows(call, digits) if ORDER in call.routes else None


def _sorted(call: Call, digits: Digits) -> list[str] | None:
    return _rows(call, digits) if len(call.shapes[0]) == 1 else None


def _counted(call: Call, digits: Digits) -> list[str] | None:
    return [PARTIAL] if _rows(call, digits) is not None else None


def _indexed(call: Call, digits: Digits) -> list[str] | None:
    """Rows picked by what integers say of them, along the first dimension."""
    if len(digits) != 2 or call.made[0] != (*call.shapes[1], *call.shapes[0][1:]):
        return None
    route, (source, rows) = call.routes[1], digits
    if not route:
        return None
    if source is not None and source.dim and rows is None:
        return [str(source._replace(dim=source.dim + len(call.shapes[1]) - 1))]
    if route == BACK and source is not None and source.experts and rows is None:
        return [PARTIAL]
    if rows is None or rows.dim or (source is not None and source.dim):
        return None
    if source is None:
        return [str(rows)]
    alike = source.experts == rows.experts and source.outer == rows.outer
    of_experts = route == EXPERT and rows.experts and not source.experts and source.outer == 1
    return [str(rows)] if of_experts or (alike and route != EXPERT and not rows.experts) else None


def _grouped_product(call: Call, digits: Digits) -> list[str] | None:
    """[rows, k] x [experts, k, n]; which rows are whose is whole."""
    if tuple(map(len, call.shapes[:2])) != (2, 3) or any(digit is not None for digit in digits[2:]):
        return None
    left, right = digits[:2]
    if left is not None and right is not None:
        if left.experts and right._replace(slots=0) == Digit(0, 1):
            return [str(left)]
        return [PARTIAL] if left.dim == right.dim == 1 and left.outer == right.outer else None
    if left is not None:
        return [str(left)] if left.dim == 0 and not left.experts else None
    return [str(right._replace(dim=1))] if right is not None and right.dim == 2 and not right.slots else None


ROUTED: Mapping[str, Callable[[Call, Digits], list[str] | None]] = {
    "aten.sort": _sorted,
    "aten.argsort": _sorted,
    "aten.floor_divide": _of_order,
    "aten.empty_like": _of_order,
    "aten.index_put": _put,
    "aten.histc": _counted,
    "aten.bincount": _counted,
    "aten.index": _indexed,
    "aten._grouped_mm": _grouped_product,
    "transformers.grouped_mm_fallback": _grouped_product,
}
"""Placements of a call's outputs given where its inputs are divided, one of them at least; None where it cannot be
divided so."""
