"""The table of what a page does with each message of its browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from explorer.web.contract.messages import read
from explorer.web.handlers import (
    exports,
    known_plans,
    lessons,
    looking,
    opening,
    pairs,
    pins,
    runs,
    scenarios,
    searching,
    what_if,
    why_here,
)
from explorer.web.handlers.jobs import drop
from explorer.web.handlers.status import banner, failed
from explorer.web.parts import panels
from explorer.web.state.page_state import RUNS, Job, PageState
from solvers.errors import InvalidProblem

HANDLERS: dict[str, Callable[..., None]] = {
    "solve": searching.solve,
    "cancel": searching.cancel_all,
    "compare": searching.compare,
    "stop-comparing": searching.stop_comparison,
    "show-row": searching.show_row,
    "theme": looking.choose_theme,
    "depth": looking.deepen,
    "expand": looking.expand,
    "collapse": looking.collapse,
    "select": looking.select,
    "peek": looking.peek,
    "drop-values": opening.drop_values,
    "canvas": looking.resize,
    "find": looking.find_operators,
    "open": looking.open_tabs,
    "window": looking.show_window,
    "course": looking.send_course,
    "waits": looking.show_wait,
    "view": pairs.change_view,
    "pair": pairs.pair,
    "unpair": pairs.unpair,
    "show-pair": pairs.show_one_of_pair,
    "pin": pins.pin,
    "together": pins.together,
    "why-here": why_here.why_here,
    "stop-why-here": why_here.stop_why_here,
    "help": what_if.try_changes,
    "stop-help": what_if.stop_changes,
    "go-help": known_plans.show_changed,
    "go-way": what_if.go_way_out,
    "sweep": what_if.start_sweep,
    "stop-sweep": what_if.stop_sweep,
    "go-sweep": what_if.go_to_point,
    "show-lean": known_plans.show_lean,
    "keep": scenarios.add_scenario,
    "forget": scenarios.forget,
    "rename": scenarios.rename,
    "as-baseline": scenarios.make_baseline,
    "differ": scenarios.differ,
    "share": scenarios.share,
    "same": scenarios.is_same,
    "export": exports.export,
    "opening": opening.expect_file,
    "reopen": opening.reopen,
    "run": runs.run,
    "run-target": runs.choose_target,
    "run-anyway": runs.run_anyway,
    "plan-here": runs.plan_here,
    "cancel-run": runs.cancel_run,
    "replan": runs.replan,
    "show-run": known_plans.show_past_run,
    "lesson": lessons.open_lesson,
    "leave-lesson": lessons.leave_lesson,
}
"""By the type of a message: called with the state of the page and the message, of the shape that `messages.INCOMING`
has for it. What they send goes out in order."""


def open_page(page: PageState) -> Callable[[], None]:
    """Let a new page hear of the server's run; returns how to close it: its jobs end, but not that run, which belongs
    to all pages."""
    targets = page.server.choices.targets
    page.run.target = targets[0] if targets else ""
    page.jobs[RUNS] = Job(lambda event: known_plans.on_running(page, event))
    unlisten = page.server.runs.listen(lambda event: page.deliver(RUNS, event))

    def close() -> None:
        unlisten()
        for turn in tuple(page.jobs):
            drop(page, turn)

    return close


def receive(page: PageState, raw: Mapping[str, object]) -> None:
    """Act on one message of the browser. What does not parse is answered, never raised."""
    message = read(raw)
    if message is None:
        words = "the page sent a message that this server does not know; load the page again"
        banner(page, panels.failure(words))
        return
    try:
        HANDLERS[message.type](page, message)
    except InvalidProblem as error:
        failed(page, str(error))
