"""Two plans of one question, shown in turn: what is missing of them is asked for."""

from __future__ import annotations

from dataclasses import replace

from explorer.view.events import Event
from explorer.view.session import PAIR, member, parse_look
from explorer.web.contract.messages import Plain, Pressed, View
from explorer.web.handlers.answering import drop_search, show_known
from explorer.web.handlers.jobs import cancel, drop, start
from explorer.web.handlers.status import before_search, failed, show_query, show_status, stand_as_before
from explorer.web.redraw.inspector import inspector_props
from explorer.web.redraw.picture import draw, of_pair, other_of_pair, show_pair, tables
from explorer.web.state.page_state import PageState
from explorer.web.state.pairing import member_session, pair_question
from explorer.words import text


def change_view(page: PageState, message: View) -> None:
    """What to draw: the graph's boxes, the schedule's rows, a pair of planners."""
    _look(page, message.model_dump(exclude={"type"}, exclude_none=True))


def _look(page: PageState, given: dict[str, object]) -> None:
    before = page.look
    page.look = look = parse_look(given, page.server.choices, before)
    if look == before:
        return
    if page.session is not None:
        page.session = replace(page.session, look=look)
        show_query(page)
    if look.pair != before.pair:
        page.wants_pair = bool(look.pair)
        page.pairing.tried = frozenset()
        follow_pair(page)
        show_pair(page)
    if (look.rows, look.links, look.times) != (before.rows, before.links, before.times):
        draw(page, "rows")
    elif look.colour != before.colour:
        page.send({"type": "props", "props": {**tables(page), **inspector_props(page)}})


def pair(page: PageState, _: Plain) -> None:
    """Show the usual pair."""
    if page.answered is not None and page.drawn is not None and not page.look.pair:
        page.alone = page.drawn, page.answered
    _look(page, {"pair": ",".join(PAIR)})


def unpair(page: PageState, _: Plain) -> None:
    """Show one plan again: the one that was shown ahead of the pair, if it answers the question still."""
    stop_pair(page)
    _look(page, {"pair": "none"})
    alone, page.alone = page.alone, None
    session = page.session
    if alone is None or session is None or member(session.planner, session.settings) == member(
        alone[0].planner, alone[0].settings
    ):  # fmt: skip
        draw(page, "pair")
        return
    before, answer = alone
    if pair_question(before) == pair_question(session):
        drop_search(page)
        show_known(page, replace(before, look=session.look, theme=session.theme), answer)
        follow_pair(page)
    else:  # of other settings by now: the planner that was chosen before is asked
        controls = {"planner": before.planner, "in_sequence": before.settings.in_sequence}
        page.send({"type": "go", "controls": controls})


def show_one_of_pair(page: PageState, message: Pressed) -> None:
    """Put the plan of one of the pair on the page, as if its planner had been asked for it."""
    answers = page.pairing.answers(page.session)
    place = message.position(len(answers))
    if place is not None:
        _show_answer(page, place)


def _show_answer(page: PageState, place: int) -> None:
    session, answer = page.session, page.pairing.answers(page.session)[place]
    if session is None or answer is None or answer.plan is None or page.skeleton is None:
        return
    if answer.model == page.skeleton["hash"]:
        drop_search(page)
        show_known(page, member_session(session, answer.member), page.pairing.result(answer))
        follow_pair(page)


def follow_pair(page: PageState) -> None:
    """Ask for the plans that the pair lacks, if they are wanted, and say how it stands."""
    session, pairing = page.session, page.pairing
    if session is None:
        return
    if of_pair(page) and page.answered is not None and page.skeleton is not None:
        pairing.add_result(session, page.answered, page.skeleton["hash"])
    if not session.look.pair or page.searching or page.goes_on(pairing.turn):
        return
    wanted = page.wants_pair or of_pair(page) is not None
    if wanted and page.skeleton is not None and pairing.missing(session):
        turn = next(page.turns)
        request = pairing.request(session, turn)
        request = replace(request, model=page.server.model_of(session), files=page.server.files_of(session))
        pairing.model = page.skeleton["hash"]
        start(page, request, lambda event: _on_pair(page, event), turn)
        show_status(page, "solving", "comparing", "…")
        show_pair(page)
    elif wanted:
        _settle(page)


def _on_pair(page: PageState, event: Event) -> None:
    """An event of the job that looks for missing plans. While a search goes on, that has the status."""
    pairing = page.pairing
    match event["kind"]:
        case "row":
            pairing.add_row(event)
            show_pair(page)
        case "compared" | "failed":
            if event["kind"] == "failed" and not pairing.stopping:
                failed(page, event["message"])
            elif not pairing.stopping and page.session is not None and pairing.missing(page.session):
                follow_pair(page)
            elif not page.searching:
                _settle(page)
                stand_as_before(page)
            show_pair(page)
        case "comparing" if not page.searching:
            bits = [event["planner"], text.seconds(event["elapsed_s"])]
            bits += [text.seconds(event["objective_s"])] if event["objective_s"] else []
            show_status(page, "solving", "comparing", " · ".join(bits))
        case _ if not page.searching:
            before_search(page, event)


def _settle(page: PageState) -> None:
    """What was asked for is there: show one of the pair if another plan is on the page, else draw it at the pair's time
    scale."""
    wanted, page.wants_pair = page.wants_pair, False
    if of_pair(page) is not None:
        if other_of_pair(page) is not None and not page.at_scale:
            draw(page, "pair")
        return
    for place, answer in enumerate(page.pairing.answers(page.session)):
        if wanted and answer is not None and answer.plan is not None:
            _show_answer(page, place)
            return


def stop_pair(page: PageState) -> None:
    if page.goes_on(page.pairing.turn):
        page.pairing.stopping = True
        cancel(page, page.pairing.turn)


def drop_pair(page: PageState) -> None:
    """Whatever the running job finds is no longer asked for."""
    drop(page, page.pairing.turn)
    page.pairing.tried = frozenset()
