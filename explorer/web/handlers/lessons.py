"""Lessons: which step is on, and whether a plan answers its question."""

from __future__ import annotations

from explorer.view.lessons.answering import known, verdict
from explorer.view.lessons.stated import as_stated, controls_of, session_of
from explorer.web.contract import ids
from explorer.web.contract.messages import OpenLesson, Plain, Props
from explorer.web.parts import lesson_panel
from explorer.web.state.page_state import LessonState, PageState

MISSING = "There is no such lesson on this server. Lessons, above, lists those that there are."


def open_lesson(page: PageState, message: OpenLesson) -> None:
    """Open a lesson at a step. The browser puts its settings into the controls, unless it keeps what it has."""
    lessons, number = page.server.lessons, message.step
    place = next((i for i, lesson in enumerate(lessons) if lesson.name == message.lesson), None)
    if place is None or not 1 <= number <= len(lessons[place].steps):
        page.lesson = LessonState()
        _show_missing(page)
        return
    chosen = lessons[place]
    page.lesson = LessonState(chosen, number - 1, same_controls=message.same_controls)
    step = chosen.steps[number - 1]
    last = number == len(chosen.steps)
    after = lessons[place + 1] if last and place + 1 < len(lessons) else None
    following = (chosen.name, number + 1) if not last else (after.name, 1) if after else None
    forward = "Next" if not last else "Next lesson" if after else "Done"
    frame = _frame(
        f"Lesson {place + 1} of {len(lessons)}", chosen.title, lesson_panel.steps(chosen, number - 1), forward
    )
    page.send(
        {
            "type": "lesson",
            "lesson": chosen.name,
            "step": number,
            "back": (chosen.name, number - 1) if number > 1 else None,
            "next": following,
            "same_controls": message.same_controls,
            "light": list(step.light),
            "move": list(step.question.move) if step.question is not None else [],
            "controls": controls_of(session_of(step.settings, page.server.known())),
            "props": {**frame, ids.LESSON_BACK: {"disabled": number == 1}, **_step_props(page)},
        }
    )


def leave_lesson(page: PageState, _: Plain) -> None:
    page.lesson = LessonState()


def follow_search(page: PageState) -> None:
    """A search has ended: the words tell of its plan, and the question is looked at again."""
    on, session = page.lesson, page.session
    if on.lesson is None or session is None or page.searching:
        return
    settings = on.lesson.steps[on.step].settings
    if on.begun is None and as_stated(session, session_of(settings, page.server.known()), settings):
        on.begun, on.then = session, known(page.plan if page.current else None, page.measured)
    on.answers_step = on.begun is not None or on.same_controls
    page.send({"type": "props", "props": _step_props(page)})


def follow_run(page: PageState) -> None:
    """A run has ended: the words of the step may tell of it."""
    if page.lesson.lesson is not None:
        page.send({"type": "props", "props": _step_props(page)})


def _step_props(page: PageState) -> Props:
    on = page.lesson
    assert on.lesson is not None
    step = on.lesson.steps[on.step]
    now = known(page.plan if on.answers_step and page.current else None, page.measured)
    judged = None
    if step.question is not None and page.session is not None:
        judged = verdict(step.question, page.session, on.begun, now, on.then)
    return {
        ids.LESSON_TEXT: {"children": lesson_panel.step_text(step, now, on.then)},
        ids.LESSON_VERDICT: {"children": lesson_panel.verdict_words(judged, now, on.then)},
    }


def _frame(place: str, title: str, steps: list[object], forward: str = "") -> Props:
    """What stands around a step. forward: the words of the button that goes on, "" if it cannot."""
    return {
        ids.LESSON_PLACE: {"children": place},
        ids.LESSON_TITLE: {"children": title},
        ids.LESSON_STEPS: {"children": steps},
        ids.LESSON_BACK: {"disabled": True},
        ids.LESSON_NEXT: {"children": forward or "Next", "disabled": not forward},
    }


def _show_missing(page: PageState) -> None:
    words: Props = {ids.LESSON_TEXT: {"children": MISSING}, ids.LESSON_VERDICT: {"children": []}}
    page.send({"type": "lesson", "lesson": None, "props": {**_frame("Lessons", "Not here", []), **words}})
