"""What waits for a page: in order, not without end, and of a search only the latest plan."""

from __future__ import annotations

import asyncio

from explorer.web.serving.live import decoded
from explorer.web.serving.queues import MOST_UNSENT, MOST_WAITING, Inbox, Outbox


def progress(number: int, plan: str | None) -> dict:
    return {"kind": "progress", "elapsed_s": number, "plan": plan, "steps": [number]}


def dealt_with(inbox: Inbox) -> None:
    async def all_of_it() -> None:
        while not inbox._queue.empty():
            (await inbox.get())()

    asyncio.run(all_of_it())


def test_a_progress_that_waits_is_taken_up_by_the_next_and_a_cancel_stays_in_its_place() -> None:
    messages: list = []
    inbox = Inbox()

    def on_event(turn: int, event: dict) -> None:
        messages.append((turn, event["kind"], event.get("elapsed_s"), event.get("plan"), event.get("steps")))

    inbox.put_event(1, progress(1, "a"), on_event)
    inbox.put(lambda: messages.append("cancel"))
    inbox.put_event(1, progress(2, "b"), on_event)
    inbox.put_event(1, progress(3, None), on_event)
    inbox.put_event(2, progress(9, None), on_event)
    inbox.put_event(1, {"kind": "result"}, on_event)
    inbox.put_event(1, progress(4, None), on_event)
    dealt_with(inbox)
    assert messages == [
        (1, "progress", 3, "b", [1, 2, 3]),
        "cancel",
        (2, "progress", 9, None, [9]),
        (1, "result", None, None, None),
        (1, "progress", 4, None, [4]),
    ]


def test_a_progress_after_one_that_was_dealt_with_is_passed_on_by_itself() -> None:
    messages: list = []
    inbox = Inbox()
    for number in (1, 2):
        inbox.put_event(1, progress(number, None), lambda _, event: messages.append(event["steps"]))
        dealt_with(inbox)
    assert messages == [[1], [2]]


def test_what_a_page_sends_beyond_what_may_wait_is_left_on_its_connection() -> None:
    async def flood() -> None:
        done: list[int] = []
        inbox = Inbox()

        async def sends() -> None:
            for number in range(3 * MOST_WAITING):
                await inbox.receive(lambda number=number: done.append(number))

        sending = asyncio.create_task(sends())
        await asyncio.sleep(0)
        assert inbox._queue.qsize() == MOST_WAITING
        inbox.put(lambda: done.append(-1))  # an event of a job is not kept waiting
        assert inbox._queue.qsize() == MOST_WAITING + 1
        for _ in range(3 * MOST_WAITING + 1):
            (await inbox.get())()
            await asyncio.sleep(0)
            assert inbox._queue.qsize() <= MOST_WAITING + 1
        await sending
        assert done == [*range(MOST_WAITING), -1, *range(MOST_WAITING, 3 * MOST_WAITING)]

    asyncio.run(flood())


def test_nothing_is_dealt_with_for_a_page_that_takes_no_answers() -> None:
    async def slow() -> None:
        outbox = Outbox()
        for number in range(MOST_UNSENT):
            await asyncio.wait_for(outbox.room(), 1)
            outbox.put({"number": number})
        waits = asyncio.create_task(outbox.room())
        await asyncio.sleep(0)
        assert not waits.done()
        assert await outbox.get() == {"number": 0}
        await asyncio.wait_for(waits, 10)

    asyncio.run(slow())


def test_what_a_page_sends_is_text_that_may_be_sent_back() -> None:
    assert decoded(r'{"a\u001b": ["\ud800", {"b": "\u202e\uffffc"}, 1, null]}') == {"a ": [" ", {"b": "  c"}, 1, None]}
    assert decoded("[" * 8_000 + "]" * 8_000) is None
