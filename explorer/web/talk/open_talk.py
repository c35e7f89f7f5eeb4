"""The part of a page's conversation that is about files: look at one that was handed in, then use what it holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.costs.times.store import PROFILE, TIMES, place_of
from explorer.jobs.requests import Files, PlaceRequest, ReadRequest
from explorer.view.events import Event, before_you
from explorer.view.session import Choices, Session
from explorer.web.contract.backend import Backend
from explorer.web.parts import panels
from explorer.web.redraw.picture import Message
from explorer.web.talk.run_talk import RunTalk
from explorer.web.talk.runs import Runs
from explorer.web.talk.shelf import PREFIX, Kept, Shelf

GONE = "this file is no longer on the server; choose it again"


class OpenTalk(RunTalk):
    """Reads files, one at a time. What is refused leaves model and plan as they were."""

    def __init__(
        self,
        backend: Backend,
        choices: Choices,
        send: Callable[[Message], None],
        deliver: Callable[[int, Event], None],
        runs: Runs | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        super().__init__(backend, choices, send, deliver, runs)
        self.shelf = shelf
        self.reading: tuple[int, str, Kept] | None = None
        self.since = 0.0

    # -- what a session may name, and where that is ---------------------------------------------------

    def _known(self) -> Choices:
        """The choices there are, files that were handed in among them."""
        files = self.shelf.names() if self.shelf is not None else ()
        return replace(self.choices, models=(*self.choices.models, *files), files=files)

    def _model_of(self, session: Session) -> str:
        """What a worker is asked for: a name, or the path of a file that was handed in."""
        return self._path(session.model) or session.model

    def _files_of(self, session: Session) -> Files:
        named = session.cluster if session.cluster in self.choices.clusters else ""
        return Files(
            self._saved(session.profile, PROFILE, self.choices.profiles),
            named or self._path(session.cluster),
            self._saved(session.times, TIMES, self.choices.times),
        )

    def _saved(self, name: str, kind: str, names: Sequence[str]) -> str:
        """The path of what is saved under a name of this server, or of a file that was handed in."""
        return str(place_of(name, kind)) if name in names else self._path(name)

    def _path(self, name: str) -> str:
        kept = self.shelf.get(name) if self.shelf is not None and name.startswith(PREFIX) else None
        return kept.path if kept is not None else ""

    def _are_gone(self, session: Session) -> bool:
        """Whether a file that the session names had to make room for others."""
        named = (session.model, session.profile, session.cluster, session.times)
        return any(name.startswith(PREFIX) and not self._path(name) for name in named)

    # -- from the browser -----------------------------------------------------------------------------

    def take(self, kept: Kept) -> None:
        """A file has arrived: look at it, in a process of its own."""
        if self.reading is not None:
            self.backend.cancel(self.reading[1])
        turn, self.since = next(self.turns), time.perf_counter()
        job = self.backend.read(ReadRequest(kept.path, kept.name), lambda event: self.deliver(turn, event))
        self.reading = turn, job, kept
        self._status("loading", f"reading {kept.name}", "", elapsed_s=0.0)

    def refuse(self, words: str) -> None:
        """A file did not even arrive."""
        self.reading = None
        self.send({"type": "banner", "children": panels.refused(words)})
        self.send({"type": "refused"})
        if self.job is None:
            self._status(*self.standing)

    def _opening(self, _: Mapping[str, Any]) -> None:
        self.backend.expect_file()

    def _reopen(self, message: Mapping[str, Any]) -> None:
        """A file of before, by the name the server gave it."""
        name = message.get("element")
        kept = self.shelf.get(name) if self.shelf is not None and isinstance(name, str) else None
        if kept is None:
            self.refuse(GONE)
        else:
            self.take(kept)

    # -- from the worker ------------------------------------------------------------------------------

    def _on_read(self, turn: int, event: Event) -> bool:
        """Whether an event was about a file that is read."""
        if self.reading is None or turn != self.reading[0]:
            return False
        kept = self.reading[2]
        match event["kind"]:
            case "waiting":
                self._status("waiting", "waiting", before_you(event), elapsed_s=time.perf_counter() - self.since)
            case "loading":
                self._status("loading", event["text"], "", elapsed_s=time.perf_counter() - self.since)
            case "opened":
                self.reading = None
                self._use(kept, event)
            case "placed":
                self.reading = None
                self._told(kept, "placement", event["told"]["words"])
                self._put(event["told"])
            case "failed":
                words = event["message"]
                if self._path(kept.identifier) != kept.path:
                    words = GONE
                elif "process ended unexpectedly" in words:
                    words = f"{kept.name}: not read: it takes more than 60 s or more than 4 GiB of memory"
                self.refuse(words)
        return True

    def _use(self, kept: Kept, event: Event) -> None:
        """What a file holds takes the place of what the page had."""
        if event["what"] == "placement":
            self._place(kept)
            return
        controls: dict[str, Any] = dict(event["told"]["controls"]) if event["told"] else {}
        if event["devices"]:
            controls["devices"] = event["devices"]
        self._told(kept, event["what"], event["words"], controls, event["memory_bytes"])
        if event["skeleton"]:
            self._drop_search()
            self._model(event["skeleton"])
        if event["told"]:
            self._put({**event["told"], "source": kept.path})
        elif self.job is None:
            self._status(*self.standing)

    def _place(self, kept: Kept) -> None:
        session = self.session
        if session is None:
            self.refuse(f"{kept.name}: a placement needs a model; open that first")
            return
        turn = next(self.turns)
        request = PlaceRequest(
            self._model_of(session), session.settings, kept.path, kept.name, self._files_of(session)
        )  # fmt: skip
        self.reading = turn, self.backend.place(request, lambda event: self.deliver(turn, event)), kept

    def _told(
        self,
        kept: Kept,
        what: str,
        words: str,
        controls: Mapping[str, Any] | None = None,
        memory_bytes: float | None = None,
    ) -> None:
        """The page is told what it opened; it asks for a plan if that changes its question. memory_bytes: what devices
        of a cluster have."""
        self.send(
            {
                "type": "opened",
                "what": what,
                "file": kept.identifier,
                "name": kept.name,
                "words": words,
                "memory_bytes": memory_bytes,
                "controls": dict(controls or {}),
            }
        )
