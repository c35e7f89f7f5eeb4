"""The part of a page's conversation about a lesson: which step is on, and whether a plan answers its question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.view.lessons.answering import NONE, Known, known, verdict
from explorer.view.lessons.lesson import Lesson
from explorer.view.lessons.stated import as_stated, controls_of, session_of
from explorer.view.session import Session
from explorer.web.contract import ids
from explorer.web.parts import lesson_panel
from explorer.web.talk.why_here_talk import WhyHereTalk

MISSING = "There is no such lesson on this server. Lessons, above, lists those that there are."


class LessonTalk(WhyHereTalk):
    """lessons: all that this server has. lesson and step: the one that is on, counted from 0. begun: the question that
    the page asked when the step began, once it has; then: figures of its plan. keeps: whether the page kept its
    controls as they were. answers_step: whether the plan on the page is of a question that was asked since."""

    lessons: Sequence[Lesson] = ()
    lesson: Lesson | None = None
    step = 0
    begun: Session | None = None
    then: Known = NONE
    keeps = False
    answers_step = False

    def _lesson(self, message: Mapping[str, Any]) -> None:
        """Open a lesson at a step. The page puts its settings into the controls, unless it keeps what it has."""
        name, number = message.get("lesson"), message.get("step")
        found = next((lesson for lesson in self.lessons if lesson.name == name), None)
        self.begun, self.then, self.answers_step = None, NONE, False
        if found is None or type(number) is not int or not 1 <= number <= len(found.steps):
            self.lesson = None
            self._tell_missing()
            return
        self.lesson, self.step, self.keeps = found, number - 1, message.get("keep") is True
        step = found.steps[self.step]
        place = next(i for i, lesson in enumerate(self.lessons) if lesson is found)
        last = number == len(found.steps)
        after = self.lessons[place + 1] if last and place + 1 < len(self.lessons) else None
        following = [found.name, number + 1] if not last else [after.name, 1] if after else None
        self.send(
            {
                "type": "lesson",
                "lesson": found.name,
                "step": number,
                "back": [found.name, number - 1] if number > 1 else None,
                "next": following,
                "keep": self.keeps,
                "light": list(step.light),
                "move": list(step.question.move) if step.question is not None else [],
                "controls": controls_of(session_of(step.settings, self._known())),
                "props": {
                    ids.LESSON_PLACE: {"children": f"Lesson {place + 1} of {len(self.lessons)}"},
                    ids.LESSON_TITLE: {"children": found.title},
                    ids.LESSON_STEPS: {"children": lesson_panel.steps(found, self.step)},
                    ids.LESSON_BACK: {"disabled": number == 1},
                    ids.LESSON_NEXT: {
                        "children": "Next" if not last else "Next lesson" if after else "Done",
                        "disabled": False,
                    },
                    **self._step_props(),
                },
            }
        )

    def _leave_lesson(self, _: Mapping[str, Any]) -> None:
        self.lesson, self.begun, self.then = None, None, NONE

    def _stand(self, state: str, what: str, more: str, query: str | None = None) -> None:
        super()._stand(state, what, more, query)
        self._follow_lesson()

    def _follow_lesson(self) -> None:
        """A search has ended: the words tell its plan, and the question is looked at again."""
        lesson, session = self.lesson, self.session
        if lesson is None or session is None or self.job is not None:
            return
        settings = lesson.steps[self.step].settings
        step = session_of(settings, self._known())
        if self.begun is None and as_stated(session, step, settings):
            self.begun, self.then = session, known(self.plan if self.current else None)
        self.answers_step = self.begun is not None or self.keeps
        self.send({"type": "props", "props": self._step_props()})

    def _step_props(self) -> dict[str, Any]:
        assert self.lesson is not None
        step = self.lesson.steps[self.step]
        now = known(self.plan if self.answers_step and self.current else None)
        told = None
        if step.question is not None and self.session is not None:
            told = verdict(step.question, self.session, self.begun, now, self.then)
        return {
            ids.LESSON_TEXT: {"children": lesson_panel.step_text(step, now, self.then)},
            ids.LESSON_VERDICT: {"children": lesson_panel.verdict_words(told, now, self.then)},
        }

    def _tell_missing(self) -> None:
        props = {
            ids.LESSON_PLACE: {"children": "Lessons"},
            ids.LESSON_TITLE: {"children": "Not here"},
            ids.LESSON_STEPS: {"children": []},
            ids.LESSON_TEXT: {"children": MISSING},
            ids.LESSON_VERDICT: {"children": []},
            ids.LESSON_BACK: {"disabled": True},
            ids.LESSON_NEXT: {"children": "Next", "disabled": True},
        }
        self.send({"type": "lesson", "lesson": None, "props": props})
