"""From what a person pins (an operator, a module) to operators."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph


def resolve_pins(graph: OpGraph, pins: Mapping[str, int]) -> dict[int, int]:
    """Operator position -> device, of pins by operator name or by module path.

    A module path stands for all operators in it and in its submodules; a longer path wins over a
    shorter one, and an operator's own name over both. A forward operator's own name stands for its
    backward and update too, which share its device. Raises InvalidProblem for a name that is
    neither, naming the closest that is.
    """
    index = graph.index_of()
    found: dict[int, int] = {}
    for name, device in sorted(pins.items(), key=lambda pin: _precedence(graph, index, pin[0])):
        if name in index:
            found[index[name]] = device
            found |= {i: device for i, operator in enumerate(graph.operators) if operator.forward_of == index[name]}
            continue
        inside = [i for i, operator in enumerate(graph.operators) if _is_in(operator.module_path, name)]
        if not inside:
            modules = _modules(operator.module_path for operator in graph.operators)
            raise InvalidProblem(
                f"pin {name}={device}: there is no operator or module {name!r}{closest(name, [*index, *modules])}"
            )
        found.update(dict.fromkeys(inside, device))
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


def _precedence(graph: OpGraph, index: Mapping[str, int], name: str) -> tuple[bool, bool, int]:
    """Later pins win: modules, then forward operators, then their backward named apart."""
    return name in index, name in index and graph.operators[index[name]].forward_of is not None, len(name)


def parse_pin(text: str) -> tuple[str, int]:
    """ "blocks.0.attn=2" -> ("blocks.0.attn", 2). Raises InvalidProblem."""
    name, separator, device = text.rpartition("=")
    if not separator or not name or not device.strip().isdecimal():
        raise InvalidProblem(f"expected a pin OPERATOR=DEVICE with a device index, found {text!r}")
    return name, int(device)


def closest(name: str, known: Iterable[str]) -> str:
    """A question to append to "there is no ...": the known name that is most like ``name``."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {match[0]!r}?" if match else ""


def _is_in(module_path: str, module: str) -> bool:
    return module_path == module or module_path.startswith(f"{module}.")


def _modules(paths: Iterable[str]) -> set[str]:
    found = set()
    for path in set(paths):
        parts = path.split(".")
        found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return found - {""}
