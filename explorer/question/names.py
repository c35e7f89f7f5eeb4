"""The names by which a person points into a graph: operators, and modules for all in them; and the pins of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from explorer.question.written.closest import closest
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph


class Names:
    """Of one graph."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.index = graph.index_of()

    def operators(self, name: str, setting: str) -> list[int]:
        """Positions of the operators that a name stands for: an operator, with its backward and update where it is a
        forward one, or all of a module and its submodules. setting: begin of the message. Raises InvalidProblem for a
        name that is neither, with the closest that is."""
        position = self.index.get(name)
        if position is not None:
            return [
                position,
                *(i for i, operator in enumerate(self.graph.operators) if operator.forward_of == position),
            ]
        inside = [i for i, operator in enumerate(self.graph.operators) if _is_in(operator.module_path, name)]
        if not inside:
            modules = _modules(operator.module_path for operator in self.graph.operators)
            hint = closest(name, [*self.index, *modules])
            raise InvalidProblem(f"{setting}: there is no operator or module {name!r}{hint}")
        return inside

    def precedence(self, name: str) -> tuple[bool, bool, int]:
        """Later ones say more: modules, the longer the later, then forward operators, then backward ones."""
        named = self.index.get(name)
        return named is not None, named is not None and self.graph.operators[named].forward_of is not None, len(name)


def _is_in(module_path: str, module: str) -> bool:
    return module_path == module or module_path.startswith(f"{module}.")


def _modules(paths: Iterable[str]) -> set[str]:
    modules = set()
    for path in set(paths):
        parts = path.split(".")
        modules |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return modules - {""}


def resolve_pins(graph: OpGraph, pins: Mapping[str, int]) -> dict[int, int]:
    """Operator position -> device, of pins by operator name or by module path.

    A module path stands for all operators in it and in its submodules; a longer path wins over a
    shorter one, and an operator's own name over both. A forward operator's own name stands for its
    backward and update too, which share its device. Raises InvalidProblem for a name that is
    neither, naming the closest that is.
    """
    known = Names(graph)
    device_of: dict[int, int] = {}
    for name, device in sorted(pins.items(), key=lambda pin: known.precedence(pin[0])):
        device_of |= dict.fromkeys(known.operators(name, f"pin {name}={device}"), device)
    _check_together(graph, device_of)
    return device_of


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
