"""A handful of clients, one of which floods and all of which lose connections: each gets its own answers, all of
them. Thirty with the real engine, and browsers: `tests.benchmarks.serving`."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.benchmarks.serving.crowd import Client, flood, questions

CLIENTS = 6
SECONDS = 3.0
MODELS, PLANNERS = ("chain",), ("auto", "single")


async def crowd(address: str) -> tuple[list[Client], int]:
    until = time.monotonic() + SECONDS
    clients = [
        Client(address, number, questions(number, MODELS, PLANNERS, 0), think_s=0.1, drop=0.3, patience_s=60.0)
        for number in range(CLIENTS)
    ]
    own = flood(address, CLIENTS, questions(CLIENTS, ("broken",), PLANNERS, 0), {}, until)
    sent, *_ = await asyncio.gather(own, *(client.live(until) for client in clients))
    return clients, sent


@pytest.mark.slow
def test_everybody_gets_the_answer_to_their_own_question(fake_server):
    clients, sent = asyncio.run(crowd(fake_server))
    assert sent > 30
    for client in clients:
        assert client.attempts
        for request in client.attempts:
            none = f"No plan fits {request.question.devices} devices of {request.question.cap / 100:g} GiB"
            assert request.final_s is not None or request.refusal.startswith(none)
        assert sum(request.foreign for request in client.attempts) == 0
        assert sum(request.lost for request in client.attempts) == 0, "the server ended no connection"
    assert any(request.tries > 1 for client in clients for request in client.attempts), "else no connection was cut"
