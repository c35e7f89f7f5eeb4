"""From what a person pins (an operator, a module) to operators."""

from __future__ import annotations

import re
from collections.abc import Mapping

from explorer.question.names import Names
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph


def resolve_pins(graph: OpGraph, pins: Mapping[str, int]) -> dict[int, int]:
    """Operator position -> device, of pins by operator name or by module path.

    A module path stands for all operators in it and in its submodules; a longer path wins over a
    shorter one, and an operator's own name over both. A forward operator's own name stands for its
    backward and update too, which share its device. Raises InvalidProblem for a name that is
    neither, naming the closest that is.
    """
    known = Names(graph)
    found: dict[int, int] = {}
    for name, device in sorted(pins.items(), key=lambda pin: known.precedence(pin[0])):
        found |= dict.fromkeys(known.operators(name, f"pin {name}={device}"), device)
    _check_together(graph, found)
    return found


def _check_together(graph: OpGraph, devices: Mapping[int, int]) -> None:
    """Raises InvalidProblem if operators that share a device are pinned to two."""
    first: dict[str | int, int] = {}
    for i in sorted(devices):
        operator = graph.operators[i]
        forward = i if operator.forward_of is None else operator.forward_of
        ties: list[tuple[str | int, str]] = [(forward, "they are one operator's forward, backward and update")]
        if operator.colocation is not None:
            ties.append((operator.colocation, f"they share {operator.colocation}"))
        for key, why in ties:
            other = first.setdefault(key, i)
            if devices[other] != devices[i]:
                raise InvalidProblem(
                    f"pins put {graph.operators[other].name!r} on device {devices[other]} and {operator.name!r} on"
                    f" device {devices[i]}, which must share one ({why}); pin both to one device"
                )


def parse_pin(text: str) -> tuple[str, int]:
    """ "blocks.0.attn=2" -> ("blocks.0.attn", 2). Raises InvalidProblem."""
    name, separator, device = text.rpartition("=")
    if not separator or not name or not re.fullmatch(r"\s*\d{1,9}\s*", device):
        raise InvalidProblem(f"expected a pin OPERATOR=DEVICE with a device index, found {text!r}")
    return name, int(device)
