"""The strip below the header that guides through a lesson, and the menu of all lessons."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from explorer.view.lessons.lesson import Lesson
from explorer.web.contract import ids


def lessons_menu(lessons: Sequence[Lesson]) -> Component:
    return html.Details(
        [
            html.Summary("Lessons", title="Short guided lessons on this page"),
            html.Div(
                [
                    html.Button(
                        [html.B(lesson.title), html.Span(lesson.about)],
                        **{"data-lesson": lesson.name, "data-step": "1"},
                    )
                    for lesson in lessons
                ],
                className="menu lessons-list",
                role="group",
                **{"aria-label": "Lessons"},
            ),
        ],
        id=ids.LESSONS,
        className="export lessons",
    )


def lesson_strip() -> Component:
    """Empty until a lesson is opened; the server fills it, step by step."""
    return html.Section(
        [
            html.Div(
                [
                    html.Div(id=ids.LESSON_PLACE, className="small quiet"),
                    html.H2(id=ids.LESSON_TITLE, tabIndex=-1),
                    html.Ol(id=ids.LESSON_STEPS, className="lesson-steps"),
                ],
                className="lesson-head",
            ),
            html.Div(id=ids.LESSON_TEXT, className="lesson-text", **{"aria-live": "polite"}),
            html.Div(id=ids.LESSON_VERDICT, className="lesson-verdict", role="status"),
            html.Div(
                [
                    html.Button("Back", id=ids.LESSON_BACK, className="tool"),
                    html.Button("Next", id=ids.LESSON_NEXT, className="tool strong"),
                    html.Button("Again", id=ids.LESSON_AGAIN, className="tool", title="Start this step again"),
                    html.Button("Leave", id=ids.LESSON_LEAVE, className="tool", title="Back to what was there before"),
                ],
                className="lesson-ways",
            ),
        ],
        id=ids.LESSON,
        className="lesson-strip",
        **{"aria-label": "Lesson"},
    )
