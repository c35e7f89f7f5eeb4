"""The names by which a person points into a graph: operators, and modules for all in them."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.question.written.closest import closest
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph


class Names:
    """Of one graph."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.index = graph.index_of()

    def operators(self, name: str, asked: str) -> list[int]:
        """Positions of the operators that a name stands for: an operator, with its backward and update where it is a
        forward one, or all of a module and its submodules. asked: begin of the message. Raises InvalidProblem for a
        name that is neither, with the closest that is."""
        found = self.index.get(name)
        if found is not None:
            return [found, *(i for i, operator in enumerate(self.graph.operators) if operator.forward_of == found)]
        inside = [i for i, operator in enumerate(self.graph.operators) if _is_in(operator.module_path, name)]
        if not inside:
            modules = _modules(operator.module_path for operator in self.graph.operators)
            hint = closest(name, [*self.index, *modules])
            raise InvalidProblem(f"{asked}: there is no operator or module {name!r}{hint}")
        return inside

    def precedence(self, name: str) -> tuple[bool, bool, int]:
        """Later ones say more: modules, the longer the later, then forward operators, then backward ones."""
        named = self.index.get(name)
        return named is not None, named is not None and self.graph.operators[named].forward_of is not None, len(name)


def _is_in(module_path: str, module: str) -> bool:
    return module_path == module or module_path.startswith(f"{module}.")


def _modules(paths: Iterable[str]) -> set[str]:
    found = set()
    for path in set(paths):
        parts = path.split(".")
        found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return found - {""}
