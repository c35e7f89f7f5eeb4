"""Over how many devices the tensors of each part of a model are divided: "vision:2+layers.16-31:8"."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from explorer.question.written.closest import closest
from explorer.question.written.kinds import MAX_DEGREE
from solvers.errors import InvalidProblem

_PART = re.compile(
    r"(?P<path>[A-Za-z_]\w*(\.\w+)*?(\.(?P<first>\d{1,6})-(?P<last>\d{1,6}))?):(?P<degree>\d{1,4})", re.ASCII
)
MAX_PARTS = 64
MAX_TEXT = 2000


@dataclass(frozen=True, slots=True)
class PartDegrees:
    """parts: the path of a module, or of several that are counted ("layers.16-31"), and the degree of what is in it;
    where several say something of a call, the last does."""

    parts: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, written: str) -> PartDegrees:
        """Raises InvalidProblem."""
        parts = []
        for part in written.split("+") if len(written) <= MAX_TEXT else ():
            match = _PART.fullmatch(part)
            if match is None or not 1 <= int(match["degree"]) <= MAX_DEGREE:
                raise InvalidProblem(
                    "expected parts of the model with a degree each, from 1 to"
                    f" {MAX_DEGREE}, such as vision:2+layers.16-31:8, found {part!r}"
                )
            if match["first"] is not None and int(match["first"]) > int(match["last"]):
                raise InvalidProblem(f"{part}: the first module must be before the last")
            parts.append((match["path"], int(match["degree"])))
        if not 0 < len(parts) <= MAX_PARTS:
            raise InvalidProblem(f"expected 1 to {MAX_PARTS} parts of the model with a degree each")
        return cls(tuple(parts))

    def __str__(self) -> str:
        return "+".join(f"{path}:{degree}" for path, degree in self.parts)

    def of(self, module_path: str, default: int) -> int:
        """The degree of the calls of a module."""
        return next((degree for path, degree in reversed(self.parts) if _within(module_path, path)), default)

    def check(self, module_paths: Collection[str]) -> None:
        """Raises InvalidProblem for a part that no module is in."""
        for path, _ in self.parts:
            if not any(_within(module, path) for module in module_paths):
                prefixes = {
                    ".".join(names[:depth])
                    for names in (module.split(".") for module in module_paths)
                    for depth in range(1, len(names) + 1)
                }
                raise InvalidProblem(
                    f"the model has no module {path!r}{closest(path, sorted(prefixes))} (--tensor-parallel-of)"
                )


def _within(module: str, path: str) -> bool:
    head, _, last = path.rpartition(".")
    first, dash, end = last.partition("-")
    if not dash:
        return module == path or module.startswith(f"{path}.")
    if head and not module.startswith(f"{head}."):
        return False
    number = module.removeprefix(f"{head}." if head else "").partition(".")[0]
    return number.isdigit() and int(first) <= int(number) <= int(end)
