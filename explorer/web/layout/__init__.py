"""The page: header, left rail, centre, right rail."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from demo_models import MODELS
from explorer.question.loading import is_traced
from explorer.question.settings import declared
from explorer.view.lessons.lesson import Lesson
from explorer.view.session import FIRST_SAMPLES_PER_DEVICE, MEANT, Session, to_dict, with_first_question
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.web.layout.centre import centre
from explorer.web.layout.guide import guide, guide_words
from explorer.web.layout.header import header
from explorer.web.layout.left_rail import left_rail, model_choices
from explorer.web.layout.lesson_strip import lesson_strip
from explorer.web.layout.open_dialog import open_dialog
from explorer.web.layout.plain import Stored
from explorer.web.layout.right_rail import right_rail


def _begun(session: Session) -> dict[str, object]:
    """What the controls show of settings that only a page without a question begins with, by their names in a link."""
    first = with_first_question(Session(session.model)).settings
    return {
        one.link: one.usual
        for one in declared()
        if one.control and getattr(first, one.field, one.default) != one.default
    }


def page(catalogue: Catalogue, session: Session, lessons: Sequence[Lesson] = ()) -> Component:
    """The whole page in the state of ``session``, without any model yet."""
    plain = {
        "models": model_choices(catalogue),
        "kinds": {kind.name: kind.memory_bytes for kind in catalogue.kinds},
        "planners": {planner.name: [planner.guarantee, planner.source] for planner in catalogue.planners},
        "demos": [model.name for model in catalogue.models if model.name in MODELS],
        "guide": guide_words(),
        "settings": [  # what `controls.js` finds each control by, and reads it as
            [one.link, one.control.id, one.control.shape, one.control.unit, one.control.place, one.usual]
            for one in declared()
            if one.control is not None
        ],
        "first": {  # what links of the first version mean, see `parse_query`
            "samples": FIRST_SAMPLES_PER_DEVICE,
            "models": [model.name for model in catalogue.models if is_traced(model.name)],
            "meant": MEANT,
        },
        "begun": _begun(session),
    }
    return html.Div(
        [
            Stored(id=ids.SESSION, data=to_dict(session)),
            Stored(id=ids.CATALOGUE, data=plain),
            Stored(id=ids.CHOSEN_THEME, data=session.theme),
            html.A("Skip to the plan", href="#centre", className="skip"),
            header(lessons),
            lesson_strip(),
            open_dialog(catalogue),
            guide(),
            html.Div(
                "Drop it to open it: a model, a plan, a placement, costs or a cluster",
                className="drop-veil",
                **{"aria-hidden": "true"},
            ),
            html.Div(
                [left_rail(catalogue, session), centre(catalogue, session), right_rail()],
                className="frame",
            ),
        ]
    )
