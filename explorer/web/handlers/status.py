"""How a page's question stands: in the header, in the banner, for those who listen, and whether the plan can be
exported."""

from __future__ import annotations

import time

from explorer.view.events import Compiling, Event, before_you
from explorer.view.session import to_query
from explorer.view.timeline.order import export_words
from explorer.web.contract.messages import Status
from explorer.web.handlers.lessons import follow_search
from explorer.web.parts import panels
from explorer.web.state.page_state import PageState
from explorer.words import text


def show_status(
    page: PageState,
    state: str,
    what: str,
    more: str,
    query: str | None = None,
    elapsed_s: float | None = None,
    new_question: bool = False,
) -> None:
    """See `explorer.web.contract.messages.Status`."""
    status: Status = {"type": "status", "state": state, "what": what, "more": more, "turn": page.turn}
    if elapsed_s is not None:
        status["elapsed_s"] = elapsed_s
    if new_question:
        status["asked"] = True
    page.status, page.status_before = status, None
    page.send(status if query is None else {**status, "query": query})


def stand(page: PageState, state: str, what: str, more: str, query: str | None = None) -> None:
    """A status that stays until there is another plan, and is shown again after a comparison."""
    show_export_state(page)
    page.standing = (state, what, more)
    show_status(page, state, what, more, query)
    follow_search(page)


def stand_as_before(page: PageState) -> None:
    show_status(page, *page.standing)


def failed(page: PageState, message: str) -> None:
    """Bad input, or a defect."""
    banner(page, panels.failure(message))
    stand(page, "failed", "failed", text.short(message, 60))


def banner(page: PageState, children: list[object]) -> None:
    page.send({"type": "banner", "children": children})


def announce(page: PageState, words: str) -> None:
    """For those who do not see what changes."""
    page.send({"type": "say", "text": text.short(words, 300)})


def before_search(page: PageState, event: Event) -> bool:
    """Show what a job does before it searches; whether the event was of that kind."""
    elapsed_s = time.perf_counter() - page.search_began
    if event["kind"] == "waiting":
        show_status(page, "waiting", "waiting", before_you(event), elapsed_s=elapsed_s)
    elif event["kind"] == "loading":
        show_status(page, "loading", event["text"], "", elapsed_s=elapsed_s)
    elif event["kind"] == "compiling":
        _show_compiling(page, event)
    else:
        return False
    return True


def _show_compiling(page: PageState, event: Compiling) -> None:
    """Kernels are compiled once per installation, and nobody's time limit pays for it. Afterwards what went on before
    goes on."""
    before = page.status_before or page.status
    if event["kernel"]:
        state = "loading" if page.plan is None else "solving"  # the former hides what is drawn
        words = f"{event['kernel']} · {text.seconds(event['seconds'])} so far"
        show_status(page, state, "compiling, once", words)
        page.status_before = before
    elif page.status_before is not None:
        page.status, page.status_before = page.status_before, None
        again: Status = {**page.status}
        again.pop("asked", None)
        page.send(again)


def show_query(page: PageState) -> None:
    """The link of what the page asks."""
    if page.session is not None:
        page.send({"type": "query", "query": to_query(page.session)})


def show_export_state(page: PageState) -> None:
    """Whether the plan on the page can be exported, and why not."""
    why = ""
    if page.searching:
        why = "A search goes on: there is nothing to export until it ends."
    elif page.plan is None:
        why = "There is no plan yet."
    elif not page.source.known:
        why = "The search was cut off before this plan was finished: solve again."
    elif not page.current:
        why = "Of an earlier question: what is asked now has no plan."
    if not why and page.plan is not None:
        why = export_words(page.plan)
    page.send({"type": "taking", "can": page.source.known, "why": why})
