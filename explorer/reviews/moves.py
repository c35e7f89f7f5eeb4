"""What moved between two placements, told by the largest modules that moved as a whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

SMALL = 0.05
"""Share of the graph's operators up to which a module is told as one, though its parts moved differently."""

Change = tuple[str, str]
"""Where from and where to, in words."""


@dataclass(frozen=True, slots=True)
class Moved:
    """``operators`` of the ``of`` operators of a module (and of those in it) went from somewhere to somewhere else.

    module: its path; "" is the whole graph, or what has no module.
    """

    module: str
    source: str
    target: str
    operators: int
    of: int

    @property
    def whole(self) -> bool:
        """Whether all of the module moved together."""
        return self.operators == self.of


def moved_modules(modules: Sequence[str], changes: Sequence[Change | None]) -> tuple[Moved, ...]:
    """What moved, the most operators first; every operator that did is counted once.

    modules, changes: per operator its module path, and how it moved (None: not at all). A module whose operators all
    moved alike is one entry, and a SMALL one is an entry for every way in which some of it moved; of others the modules
    in them are looked at one by one.
    """
    found: list[Moved] = []
    todo = [("", list(range(len(modules))))]
    while todo:
        path, members = todo.pop()
        among = Counter(changes[i] for i in members)
        if set(among) == {None}:
            continue
        if len(among) == 1 or (path and len(members) <= SMALL * len(modules)):
            found += _counted(path, among, len(members))
            continue
        inner: dict[str, list[int]] = defaultdict(list)
        for i in members:
            inner[_below(path, modules[i])].append(i)
        own = inner.pop(path, [])
        found += _counted(path, Counter(changes[i] for i in own), len(own))
        todo += inner.items()
    return tuple(sorted(found, key=lambda moved: (-moved.operators, moved.module, moved.source, moved.target)))


def _counted(path: str, among: Counter[Change | None], of: int) -> list[Moved]:
    return [Moved(path, *change, count, of) for change, count in among.items() if change is not None]


def _below(path: str, module: str) -> str:
    """The module right below ``path`` that holds ``module``, or ``path`` itself."""
    if module == path:
        return path
    rest = module[len(path) + 1 :] if path else module
    head = rest.partition(".")[0]
    return f"{path}.{head}" if path else head
