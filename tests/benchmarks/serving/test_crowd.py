"""Thirty clients and two browsers on one server, for ten minutes, while one more floods it, workers are killed and
connections are cut.

``PLACEMENT_CROWD_MINUTES`` (10) says for how long; ``PLACEMENT_CROWD_FLAGS`` is added to the command that serves,
as in ``--quota questions=none``.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.benchmarks.page.driven import load
from tests.benchmarks.serving.crowd import Attempt, Client, counted, flood, questions
from tests.benchmarks.serving.persons import Person
from tests.benchmarks.serving.watching import Watch, percentile
from tests.benchmarks.table import show
from tests.browser.serving.commands import Served
from tests.browser.serving.test_remote import sign_in

MINUTES = float(os.environ.get("PLACEMENT_CROWD_MINUTES", "10"))
FLAGS = shlex.split(os.environ.get("PLACEMENT_CROWD_FLAGS", ""))
pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(60 * MINUTES + 1800)]

TOKEN = "crowd-9hT_x2LqVw0KfRm7uYc"
CLIENTS, BROWSERS = 30, 2
MODELS, PLANNERS = ("gpt-small", "bert-small", "rnnlm-small"), ("auto", "auto", "linear-dp", "graph-pipeline")
THINK_S = 20.0
DROP = 0.1
"""Of all questions, those during which the connection is cut."""
KILL_EVERY_S = 20.0
MOST_THREADS = 60
"""Of the server: some for each page's file, none for each job."""
MOST_TIMES_THE_MEAN = 2.0


async def crowd(server: Served, folder: Path) -> tuple[list[Client], list[Person], Watch, int]:
    def cookie() -> dict[str, str]:
        return {"Cookie": sign_in(server.address, TOKEN).cookie}

    clients = [
        Client(server.address, i, questions(i, MODELS, PLANNERS, 0), cookie(), THINK_S, DROP) for i in range(CLIENTS)
    ]
    flooding = questions(CLIENTS, MODELS, PLANNERS, 0)
    streams = [questions(CLIENTS + 1 + i, MODELS, PLANNERS, 0) for i in range(BROWSERS)]
    persons = [Person(server.address, TOKEN, stream, folder / f"browser{i}") for i, stream in enumerate(streams)]
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        persons = []
    watch = Watch(server.process.pid)
    until = time.monotonic() + 60 * MINUTES
    rest = asyncio.gather(
        watch.look(until),
        watch.kill(until, KILL_EVERY_S),
        *(client.live(until) for client in clients),
        *(asyncio.to_thread(person.live, until) for person in persons),
    )
    await asyncio.sleep(60 * MINUTES / 4)
    sent = await flood(server.address, CLIENTS, flooding, cookie(), until - 60 * MINUTES / 4)
    await rest
    return clients, persons, watch, sent


def row(name: str, question: Sequence[Attempt]) -> tuple[str, ...]:
    first = [each.first_s for each in question if each.first_s is not None]
    final = [each.final_s for each in question if each.final_s is not None]
    shares = (0.5, 0.9, 0.99)
    return (
        name,
        str(len(question)),
        str(len(final)),
        str(sum(each.final_s is None and bool(each.refusal) for each in question)),
        str(sum(not each.answered for each in question)),
        str(sum(each.foreign for each in question)),
        *(f"{percentile(first, share):.2f}" for share in shares),
        *(f"{percentile(final, share):.2f}" for share in shares),
    )


def test_thirty_clients_and_two_browsers(tmp_path: Path) -> None:
    began = load()
    with Served({"PLACEMENT_EXPLORER_TOKEN": TOKEN}, "gpt-small", "--allow-remote", *FLAGS) as server:
        clients, persons, watch, sent = asyncio.run(crowd(server, tmp_path))
    everybody = [*clients, *persons]
    attempts = [each for one in everybody for each in one.attempts]
    header = ("who", "asked", "plans", "told why not", "no answer", "others' plans")
    times = [f"{which} plan, s, {share} %" for which in ("first", "final") for share in (50, 90, 99)]
    rows = [row(f"{len(clients)} clients", [each for one in clients for each in one.attempts])]
    rows += [row(f"{len(persons)} browsers", [each for one in persons for each in one.attempts])] if persons else []
    show(f"{MINUTES:g} minutes, load {began} before", (*header, *times), rows, "uvicorn", "websockets")

    waits = [
        statistics.mean(seconds)
        for one in clients
        if (seconds := [each.final_s for each in one.attempts if each.final_s is not None])
    ]
    worst = max(waits) / statistics.mean(waits)
    seen = watch.samples
    show(
        "the server meanwhile",
        (
            "flooded with",
            "workers killed",
            "cut",
            "threads",
            "server MiB",
            "slope MiB/min",
            "workers MiB",
            "worst wait",
        ),
        [
            (
                sent,
                watch.killed,
                sum(each.tries - 1 - each.lost for each in attempts),
                f"{min(each.threads for each in seen)} to {max(each.threads for each in seen)}",
                f"{seen[0].server_mib:.0f} to {max(each.server_mib for each in seen):.0f}",
                f"{watch.slope():+.1f}",
                f"{max(each.workers_mib for each in seen):.0f}",
                f"{worst:.2f} x mean",
            )
        ],
        "uvicorn",
        "websockets",
    )
    for message, count in counted([each.refusal for each in attempts if each.refusal]).items():
        print(f"- {count} x {message[:160]}")

    assert sum(each.foreign for each in attempts) == 0, "somebody got another's plan"
    assert all(each.answered for each in attempts)
    assert "Traceback" not in server.output, server.output[-3000:]
    assert max(each.threads for each in seen) <= MOST_THREADS
    assert worst <= MOST_TIMES_THE_MEAN
