"""What a page shows of runs: the one that goes on, the one that has ended, those before."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from explorer.view.events import Event
from explorer.view.session import Choices, RunAsked
from explorer.web.contract import ids
from explorer.web.contract.backend import Backend
from explorer.web.parts import panels, run_panel
from explorer.web.parts.run_history import history
from explorer.web.redraw.picture import Message
from explorer.web.talk.pair_talk import PairTalk
from explorer.web.talk.runs import Runs
from explorer.words import text

RUNS = -1
"""The turn of what all pages are told of the server's one run."""
NOTHING = "Nothing was run."
REDRAW_S = 0.5
"""The progress of a run is drawn at most this often."""


class RunPicture(PairTalk):
    """The part of a page's state that is about runs, and how it is drawn.

    run: the one in the panel; laid: the last one that was measured, which is laid over the schedule while its
    own plan is on the page. prepared: what was found of the plan on the page before it runs. wanted: what to
    run as soon as that is known. complaint: what did not happen, why, and the log until then. before: what a plan with
    measured costs was made to replace.
    current: whether the plan on the page answers what the page asks.
    postponed: a run that waits until somebody agrees, since the costs are of other hardware; agreed: plan and target of
    which somebody did. stage and told_at: of the progress told last, and when.
    """

    def __init__(
        self,
        backend: Backend,
        choices: Choices,
        send: Callable[[Message], None],
        deliver: Callable[[int, Event], None],
        runs: Runs | None = None,
    ) -> None:
        super().__init__(backend, choices, send, deliver)
        self.runs = Runs(backend) if runs is None else runs
        self.run: Mapping[str, Any] | None = None
        self.laid: Mapping[str, Any] | None = None
        self.prepared: Event | None = None
        self.preparing: tuple[int, str] | None = None
        self.showing = 0
        self.wanted: RunAsked | None = None
        self.target = choices.targets[0] if choices.targets else ""
        self.complaint: tuple[str, str, tuple[str, ...]] | None = None
        self.before: Event | None = None
        self.stage: tuple[float, str, bool] | None = None
        self.told_at = 0.0
        self.current = False
        self.postponed: RunAsked | None = None
        self.agreed: tuple[str, str] | None = None
        self.unlisten = self.runs.listen(lambda event: self.deliver(RUNS, event))

    def _held(self) -> str:
        """The name of the plan on the page, if it can be run: a finished one."""
        return str(self.plan.get("held") or "") if self.plan is not None else ""

    def _runnable(self) -> bool:
        """Whether there is a plan to run: a finished one, of the question that stands on the page."""
        return bool(self._held()) and self.current

    def _unanswered(self) -> None:
        """Another question is asked: the plan on the page is no answer to it."""
        self.current = False
        self.send({"type": "props", "props": {ids.RUN_OPEN: {"disabled": True}, ids.RUN_START: {"disabled": True}}})

    def _around(self) -> dict[str, Any]:
        """A plan may have been made with other costs than the model's."""
        found = super()._around()
        if self.skeleton is not None and self.plan is not None:
            found[ids.CHIP] = {"children": panels.chip(self.skeleton, self.plan.get("costs_from"))}
        return found

    def _ran(self) -> Mapping[str, Any] | None:
        """The run of the plan on the page, with measurements to lay over it."""
        laid = self.laid
        return laid if laid is not None and laid["held"] == self._held() else None

    def _measured(self) -> Mapping[str, Any] | None:
        ran = self._ran()
        return None if ran is None else ran["report"]

    def _complain(self, words: str) -> None:
        self.complaint, self.wanted = (NOTHING, words, ()), None
        self._tell_run()

    def _past(self) -> list[Any]:
        return self.backend.past_runs(self.skeleton["reference"]) if self.skeleton is not None else []

    def _tell_run(self) -> None:
        going, can = self.runs.going, self._runnable()
        refused = bool(self.prepared and self.prepared["refused"])
        props: dict[str, Any] = {
            ids.RUN_OPEN: {"disabled": not can},
            ids.RUN_START: {"disabled": going is not None or not can or refused or self.wanted is not None},
            ids.RUN_STOP: {"disabled": (going is None and self.wanted is None) or bool(going and going.stopping)},
            ids.RUN_NOTE: {"children": self._run_note()},
        }
        if "run" in self.open:
            shown = self.run["bundle"] if self.run is not None else ""
            props[ids.RUN_BODY] = {"children": self._run_body()}
            props[ids.RUN_HISTORY] = {"children": history(self._past(), shown, going is not None)}
        ran = self._ran()
        state = "going" if going is not None else "measured" if ran is not None else ""
        message: Message = {"type": "run", "state": state, "times": self.look.times}
        message["can_replan"] = going is None and ran is not None and self.runs.text(ran["held"]) is not None
        if going is not None:
            message["elapsed_s"] = time.monotonic() - going.began
        self.send(message | {"colour": self.look.colour, "props": props})

    def _tell_progress(self) -> None:
        """How far the run is: the phase when it changes, the rest not more often than can be read."""
        going = self.runs.going
        stage = None if going is None else (going.began, going.phase, going.stopping)
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.told_at = stage, now
            self._tell_run()
        elif now - self.told_at >= REDRAW_S and "run" in self.open and going is not None:
            self.told_at = now
            self.send({"type": "props", "props": {ids.RUN_BODY: {"children": self._run_body()}}})

    def _run_note(self) -> str:
        going = self.runs.going
        if going is not None:
            return "Cancelling …" if going.stopping else f"{'Measuring' if going.what == 'replan' else 'Running'} …"
        if self.wanted is not None:
            return "Looking at the plan …"
        if self.postponed is not None:
            return "Not started: see below."
        if not self._runnable():
            return "Solve first: there is no finished plan to run."
        return ""

    def _run_body(self) -> list[Any]:
        going, run = self.runs.going, self.run
        if going is not None:
            elapsed_s = time.monotonic() - going.began
            return run_panel.going(
                going.what, going.target, going.phase, going.done, going.of, list(going.lines), elapsed_s
            )
        if self.complaint is not None:
            title, why, lines = self.complaint
            return run_panel.failure(title, text.short(why, 2000), lines)
        if self.before is not None:
            return run_panel.replanned(self.before)
        if run is not None:
            return run_panel.report(run, run["held"] == self._held())
        if self.prepared is not None:
            return run_panel.checked(self.prepared, self.postponed is not None)
        return run_panel.idle()

    def _say(self, words: str) -> None:
        """For those who do not see that the panel changes."""
        self.send({"type": "say", "text": text.short(words, 300)})
