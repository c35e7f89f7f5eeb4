"""What waits for a page: in order, and of a search only the latest plan."""

from __future__ import annotations

import asyncio

from explorer.web.serving.inbox import Inbox


def progress(number: int, plan: str | None) -> dict:
    return {"kind": "progress", "elapsed_s": number, "plan": plan, "steps": [number]}


def dealt_with(inbox: Inbox) -> None:
    async def all_of_it() -> None:
        while not inbox._queue.empty():
            (await inbox.get())()

    asyncio.run(all_of_it())


def test_a_progress_that_waits_is_taken_up_by_the_next_and_a_cancel_stays_in_its_place() -> None:
    told: list = []
    inbox = Inbox()

    def on_event(turn: int, event: dict) -> None:
        told.append((turn, event["kind"], event.get("elapsed_s"), event.get("plan"), event.get("steps")))

    inbox.tell(1, progress(1, "a"), on_event)
    inbox.put(lambda: told.append("cancel"))
    inbox.tell(1, progress(2, "b"), on_event)
    inbox.tell(1, progress(3, None), on_event)
    inbox.tell(2, progress(9, None), on_event)
    inbox.tell(1, {"kind": "result"}, on_event)
    inbox.tell(1, progress(4, None), on_event)
    dealt_with(inbox)
    assert told == [
        (1, "progress", 3, "b", [1, 2, 3]),
        "cancel",
        (2, "progress", 9, None, [9]),
        (1, "result", None, None, None),
        (1, "progress", 4, None, [4]),
    ]


def test_a_progress_after_one_that_was_dealt_with_is_told_by_itself() -> None:
    told: list = []
    inbox = Inbox()
    for number in (1, 2):
        inbox.tell(1, progress(number, None), lambda _, event: told.append(event["steps"]))
        dealt_with(inbox)
    assert told == [[1], [2]]
