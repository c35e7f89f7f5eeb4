"""What a format is, and what comes of writing one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name

from explorer.exports.layers.written import Written
from explorer.view.graph.palette import Theme
from explorer.view.pictures.picture import Picture
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import PlanFile

Write = Callable[[PlanFile], str | Picture]
Launch = Callable[[PlanFile, bool], Written]
"""What writes a launcher's file: nearest says that what the format cannot say may be moved."""


@dataclass(frozen=True, slots=True)
class Exported:
    """data: of the file. lost and changed: see `Written`."""

    data: bytes
    lost: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """name: as on the command line. what: in a few words, for a menu. ending: of a file's name. media_type: of a
    download. writes: "module:function" in this package, a `Write`, loaded when it is asked for; it raises
    PlacementError, in one line, if the plan cannot be said in this format. launches: whether another program runs the
    plan from it (then it is a `Launch`)."""

    name: str
    what: str
    ending: str
    media_type: str
    writes: str
    launches: bool = False

    @property
    def themed(self) -> bool:
        """Whether it is a picture."""
        return self.media_type.startswith("image/")

    def export(self, file: PlanFile, theme: Theme = "light", *, nearest: bool = False) -> Exported:
        """A plan in this format. Raises PlacementError, in one line."""
        if nearest and not self.launches:
            raise InvalidProblem(f"nearest is for launchers; {self.name} says the plan as it is")
        write = resolve_name(f"explorer.exports.{self.writes}")
        made: str | Picture | Written = write(file, nearest) if self.launches else write(file)
        if isinstance(made, Written):
            return Exported(made.text.encode("utf-8"), made.lost, made.changed)
        if isinstance(made, Picture):
            return Exported(made.png(theme) if self.ending == ".png" else made.svg(theme).encode("utf-8"))
        return Exported(made.encode("utf-8"))
