"""What a format is, and what comes of writing one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.exports.layers.written import Written
from explorer.view.graph.palette import Theme
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import PlanFile

Write = Callable[[PlanFile, Theme], str | bytes]
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
    download. write: its content, in a theme where it is a picture; raises PlacementError, in one line, if the plan
    cannot be said in this format. themed: whether it is a picture. launches: whether another program runs the plan
    from it (then ``write`` is a `Launch`)."""

    name: str
    what: str
    ending: str
    media_type: str
    write: Write | Launch
    themed: bool = False
    launches: bool = False

    def export(self, file: PlanFile, theme: Theme = "light", *, nearest: bool = False) -> Exported:
        """A plan in this format. Raises PlacementError, in one line."""
        if nearest and not self.launches:
            raise InvalidProblem(f"nearest is for launchers; {self.name} says the plan as it is")
        made = self.write(file, nearest if self.launches else theme)  # type: ignore[arg-type]  # by ``launches``
        if isinstance(made, Written):
            return Exported(made.text.encode("utf-8"), made.lost, made.changed)
        return Exported(made.encode("utf-8") if isinstance(made, str) else made)
