"""How much one visitor may have: of questions, of seconds, of bytes; and that nobody else pays for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.jobs.requests import HashRequest, HelpRequest, PlanSource, SolveRequest
from explorer.question.settings import Settings
from explorer.view.session import Choices, parse
from explorer.web.handlers.jobs import drop, start
from explorer.web.serving.quotas import MIB, REMEMBERED, SHARED, Quotas, Visitors, read_quotas
from explorer.web.state.outlet import MAX_FILES as MAX_EXPORTS
from explorer.web.state.outlet import PATH, Outlet, Taken
from explorer.web.state.shelf import MAX_FILES, Shelf
from solvers.errors import InvalidProblem
from tests.explorer.web.pages import OpenPage

SOLVE = SolveRequest("chain", Settings())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Started:
    """A backend that takes note."""

    def __init__(self) -> None:
        self.requests: list[object] = []
        self.cancelled: list[str] = []

    def start(self, request, on_event, visitor="") -> str:
        self.requests.append(request)
        return f"job{len(self.requests)}"

    def cancel(self, job) -> None:
        self.cancelled.append(job)


def test_questions_may_come_in_a_burst_and_then_at_their_rate() -> None:
    clock = Clock()
    one = Visitors(Quotas(questions_per_s=2.0), clock).get("one")
    assert [one.charge() for _ in range(30)] == [""] * 30
    assert one.charge() == (
        "one visitor may ask 2 questions a second here (a comparison or a sweep counts as 10); ask again in 1 s"
    )
    assert one.charge(10.0).endswith("ask again in 5 s")
    clock.now = 1.0
    assert [one.charge() for _ in range(3)] == ["", "", one.charge()]
    clock.now = 1000.0
    assert [one.charge() for _ in range(30)] == [""] * 30
    assert one.charge() != ""


def test_a_rate_below_one_lets_a_comparison_through() -> None:
    clock = Clock()
    one = Visitors(Quotas(questions_per_s=0.1), clock).get("one")
    assert one.charge(10.0) == ""
    assert one.charge().endswith("ask again in 10 s")


def test_what_one_visitor_asks_costs_no_other() -> None:
    visitors = Visitors(Quotas(questions_per_s=1.0, upload_bytes=100.0), Clock())
    assert all(visitors.get("one").charge() == "" for _ in range(15))
    assert visitors.get("one").charge() != ""
    assert visitors.get("two").charge() == ""
    assert visitors.get("one").hand_in(100) == ""
    assert visitors.get("one").hand_in(1) != ""
    assert visitors.get("two").hand_in(100) == ""


def test_bytes_that_are_handed_in_come_back_within_the_hour() -> None:
    clock = Clock()
    one = Visitors(Quotas(upload_bytes=60.0 * MIB, held_bytes=50.0 * MIB), clock).get("one")
    assert one.hand_in(50 * MIB) == ""
    assert one.hand_in(40 * MIB) == "one visitor may hand in 60 MiB an hour here; try again in 30 min"
    assert one.hand_in(51 * MIB) == "the files of one visitor may take 50 MiB here"
    clock.now = 1800.0
    assert one.hand_in(40 * MIB) == ""


def test_without_quotas_nothing_is_refused() -> None:
    one = Visitors(Quotas()).get("")
    assert all(one.charge(1e9) == "" and one.hand_in(2**40) == "" for _ in range(1000))


def test_a_visitor_with_a_page_is_not_forgotten_and_the_others_are_in_the_end() -> None:
    visitors = Visitors(Quotas(questions_per_s=1.0), Clock())
    there = visitors.get("there")
    there.pages = 1
    gone = visitors.get("gone")
    for number in range(REMEMBERED + 1):
        visitors.get(f"visitor {number}")
    assert visitors.get("there") is there
    assert visitors.get("gone") is not gone


def test_a_question_beyond_the_quota_fails_in_a_line_and_reaches_nobody() -> None:
    backend = Started()
    page = OpenPage(backend, Choices(("chain",), ("auto",), ("cpu",))).state
    page.may_ask = Visitors(Quotas(questions_per_s=0.8), Clock()).get("one").may_ask  # 12 at once
    events: list = []
    start(page, HelpRequest(SOLVE, PlanSource("a"), 4), events.append)
    for _ in range(4):
        start(page, HashRequest(PlanSource("a")), events.append)
    last = start(page, SOLVE, events.append)
    assert events == []
    refused = start(page, SOLVE, events.append)
    assert [event["kind"] for event in events] == ["failed"]
    assert "ask again in 2 s" in events[0]["message"]
    assert len(backend.requests) == 6
    drop(page, refused)
    drop(page, last)
    assert backend.cancelled == ["job6"]


def test_a_search_may_ask_for_so_many_seconds() -> None:
    choices = Choices(("chain",), ("auto",), ("cpu",), most_time_limit_s=20.0)
    assert parse({"model": "chain"}, choices).time_limit_s == 20.0
    assert parse({"model": "chain", "time_limit": 5}, choices).time_limit_s == 5.0
    with pytest.raises(InvalidProblem, match="a search may take 20 s on this server, not 21 s: stop after less"):
        parse({"model": "chain", "time_limit": 21}, choices)


def handed_in(shelf: Shelf, text: str, owner: str, most: float = 100.0) -> str:
    part = shelf.part()
    part.write_text(text)
    return shelf.store(part, "a.json", owner, most).identifier


def test_the_oldest_files_of_a_visitor_make_room_for_its_new_ones() -> None:
    shelf = Shelf()
    other = handed_in(shelf, "x" * 90, "two")
    first, shared = handed_in(shelf, "a" * 40, "one"), handed_in(shelf, "b" * 40, "one")
    assert handed_in(shelf, "b" * 40, "two") == shared
    path = shelf.get(first).path
    assert shelf.get(other) is None, "of two, who held it and 40 bytes more"
    last = handed_in(shelf, "c" * 60, "one")
    assert shelf.get(first) is not None, "it was used since: the other one went"
    assert shelf.get(shared) is not None, "two has it still"
    assert shelf.get(last) is not None
    handed_in(shelf, "d" * 99, "one")
    assert shelf.get(first) is None
    assert not Path(path).exists()
    shelf.close()


def test_nobody_loses_files_to_somebody_who_has_more() -> None:
    shelf, outlet = Shelf(), Outlet()
    other = handed_in(shelf, "other", "two")
    own = [handed_in(shelf, f"own {i}", "one", 1e9) for i in range(MAX_FILES + 6)]
    assert shelf.get(other) is not None
    assert [shelf.get(each) is not None for each in own] == [False] * 7 + [True] * (MAX_FILES - 1)
    shelf.close()
    other = outlet.put(Taken("a", "text/plain", b"a"), "two")
    own = [outlet.put(Taken("a", "text/plain", b"a"), "one") for _ in range(MAX_EXPORTS + 6)]
    assert outlet.get(other.removeprefix(PATH)) is not None
    present = [outlet.get(each.removeprefix(PATH)) is not None for each in own]
    assert present == [False] * 7 + [True] * (MAX_EXPORTS - 1)


def test_quotas_are_read_from_the_command_line() -> None:
    quotas = read_quotas(["questions=0.5", "seconds=10", "upload=2GiB", "held=none", "pages=3"], SHARED)
    assert quotas == Quotas(0.5, 10.0, 2.0**31, float("inf"), 3.0)
    assert read_quotas([], SHARED) is SHARED
    assert read_quotas(["seconds=none"], SHARED).search_s == 600.0
    for broken in ("questions", "questions=", "bytes=3", "questions=0", "questions=nan", "questions=-1", "upload=x",
                   "seconds=601", "pages=1e400", "held=0GiB", "=3"):  # fmt: skip
        with pytest.raises(InvalidProblem, match="--quota"):
            read_quotas([broken], SHARED)
