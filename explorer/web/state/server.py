"""What all pages of a server share, and where the files are that their questions name."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.costs.times.store import PROFILE, TIMES, place_of
from explorer.jobs.requests import Files
from explorer.view.events import ModelEvent, unpacked_graph
from explorer.view.lessons.lesson import Lesson
from explorer.view.plan_types import Skeleton
from explorer.view.session import Choices, Session
from explorer.web.contract.backend import Backend
from explorer.web.state.answers import Answers
from explorer.web.state.outlet import Outlet
from explorer.web.state.runs import Runs
from explorer.web.state.shelf import PREFIX, Shelf

REMEMBERED = 12
"""Graphs that all pages share, those shown last: one on many pages is in memory once."""


@dataclass
class Server:
    """runs: by default of this backend; skeletons: by the hash of a graph."""

    backend: Backend
    choices: Choices
    lessons: Sequence[Lesson] = ()
    shelf: Shelf | None = None
    runs: Runs = None  # type: ignore[assignment]  # made below
    answers: Answers = field(default_factory=Answers)
    outlet: Outlet = field(default_factory=Outlet)
    skeletons: MutableMapping[str, Skeleton] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = self.runs or Runs(self.backend)

    def graph(self, event: ModelEvent) -> Skeleton:
        """The graph of a ``model`` event: one for all pages that showed it lately."""
        skeleton = self.skeletons.pop(event["hash"], None) or unpacked_graph(event["skeleton"])
        self.skeletons[event["hash"]] = skeleton
        while len(self.skeletons) > REMEMBERED:
            self.skeletons.pop(next(iter(self.skeletons)))
        return skeleton

    def known(self) -> Choices:
        """What a session may name: the choices there are, files that were handed in among them."""
        files = self.shelf.names() if self.shelf is not None else ()
        return replace(self.choices, models=(*self.choices.models, *files), files=files)

    def path(self, name: str) -> str:
        """Where a file is that was handed in; "" if it is not there, or the name is another's."""
        stored = self.shelf.get(name) if self.shelf is not None and name.startswith(PREFIX) else None
        return stored.path if stored is not None else ""

    def model_of(self, session: Session) -> str:
        """What a worker is asked for: a name, or the path of a file that was handed in."""
        return self.path(session.model) or session.divided_model

    def files_of(self, session: Session) -> Files:
        """What takes the place of settings: paths, or the name of a cluster."""
        named = session.cluster if session.cluster in self.choices.clusters else ""
        return Files(
            self._saved(session.profile, PROFILE, self.choices.profiles),
            named or self.path(session.cluster),
            self._saved(session.times, TIMES, self.choices.times),
        )

    def _saved(self, name: str, kind: str, names: Sequence[str]) -> str:
        """The path of what is saved under a name of this server, or of a file that was handed in."""
        return str(place_of(name, kind)) if name in names else self.path(name)

    def lacks_files_of(self, session: Session) -> bool:
        """Whether a file that the session names had to make room for others."""
        named = (session.model, session.profile, session.cluster, session.times)
        return any(name.startswith(PREFIX) and not self.path(name) for name in named)
