"""How long 1, 10 and 30 visitors wait for a first and a final plan, of one checkout beside another:

python -m tests.benchmarks.serving.load [--visitors 1 10 30] [--minutes 2] [--repeats 2] [--by-work] [--beside CHECKOUT]

Each visitor asks, waits for the final plan, thinks, and asks again. "own": no two questions are equal. "class": all
draw from the same few, as a class at one exercise does, in an order of their own. Checkouts take turns, so that what
else the machine does meets both. Waits are wall time, or with --by-work seconds of work of the two workers, half of the
sum: what they would be on a machine that has two cores for nothing else, while both workers are busy.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks.serving.crowd import Attempt, Client, Question, questions
from tests.benchmarks.serving.watching import Watch, cpu_s, percentile
from tests.benchmarks.table import show
from tests.browser.conftest import ROOT
from tests.browser.serving.commands import Served

MODELS, EFFORTS = ("gpt-small", "bert-small", "rnnlm-small"), ("quick", "normal")
CLASS_CAPS = (400, 800)
"""Hundredths of GiB: with models, devices and efforts, 36 questions."""
THINK_S = 5.0
LIMIT_S = 600
"""Of a search: it ends by what it has done, however busy the machine is."""
OWN, CLASS = "own", "class"


def own(visitor: int, seed: int) -> Iterator[Question]:
    """Questions that no other visitor asks, half of them at quick effort."""
    draw = random.Random(f"effort {seed} {visitor}")
    for attempts in questions(visitor, MODELS, ("auto",), seed):
        yield Question(attempts.model, attempts.devices, attempts.cap, "auto", draw.choice(EFFORTS), LIMIT_S)


def shared(visitor: int, seed: int) -> Iterator[Question]:
    """Those of the class, each once and then again, in an order of the visitor's own."""
    every = [
        Question(*one[:3], "auto", one[3], LIMIT_S) for one in itertools.product(MODELS, (2, 3, 4), CLASS_CAPS, EFFORTS)
    ]
    random.Random(f"class {seed} {visitor}").shuffle(every)
    return itertools.cycle(every)


async def visit(
    address: str, visitors: int, kind: str, seconds: float, seed: int, clock: Callable[[], float] = time.monotonic
) -> list[Attempt]:
    draw = own if kind == OWN else shared
    clients = [
        Client(address, i, draw(i, seed), think_s=THINK_S, patience_s=600.0, fresh=kind == OWN, clock=clock)
        for i in range(visitors)
    ]
    until = time.monotonic() + seconds
    await asyncio.gather(*(client.live(until) for client in clients))
    return [attempts for client in clients for attempts in client.attempts]


def measured(
    root: Path, visitors: int, kind: str, seconds: float, seed: int, by_work: bool
) -> tuple[list[Attempt], float, float]:
    """Questions, and seconds of work of the workers and of the server itself."""
    with Served({}, "gpt-small", "--workers", "2", "--no-library", root=root) as server:
        asyncio.run(visit(server.address, min(4, visitors + 1), kind, 15.0, seed + 1))  # workers and kernels are there
        watch = Watch(server.process.pid)

        def worked_s() -> float:
            return sum(map(cpu_s, watch.workers()))

        clock = (lambda: worked_s() / 2) if by_work else time.monotonic
        before = worked_s(), cpu_s(watch.pid)
        attempts = asyncio.run(visit(server.address, visitors, kind, seconds, seed, clock))
        return attempts, worked_s() - before[0], cpu_s(watch.pid) - before[1]


def row(name: str, kind: str, visitors: int, runs: Sequence[tuple[list[Attempt], float, float]]) -> tuple[object, ...]:
    attempts = [each for run in runs for each in run[0]]
    first = [each.first_s for each in attempts if each.first_s is not None]
    final = [each.final_s for each in attempts if each.final_s is not None]
    wrong = sum(each.final_s is None or each.foreign > 0 for each in attempts)
    work, served = (sum(run[part] for run in runs) / max(1, len(attempts)) for part in (1, 2))
    waits = [f"{percentile(each, share):.2f}" for each in (first, final) for share in (0.5, 0.95)]
    return name, kind, visitors, len(attempts), wrong, *waits, f"{work:.2f}", f"{served:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, nargs="+", default=[1, 10, 30])
    parser.add_argument("--kinds", nargs="+", choices=(OWN, CLASS), default=[OWN, CLASS])
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--beside", type=Path, action="append", default=[], help="another checkout")
    parser.add_argument("--by-work", action="store_true")
    given = parser.parse_args()
    roots = [*given.beside, ROOT]
    rows = []
    for kind, visitors in itertools.product(given.kinds, given.visitors):
        runs: dict[Path, list[tuple[list[Attempt], float, float]]] = {root: [] for root in roots}
        for seed, root in itertools.product(range(given.repeats), roots):
            runs[root].append(measured(root.resolve(), visitors, kind, 60 * given.minutes, seed, given.by_work))
            rows_now = row(str(root), kind, visitors, runs[root])
            print(*rows_now, f"load {os.getloadavg()[0]:.1f}", flush=True)
        rows += [row("this one" if root is ROOT else root.name, kind, visitors, runs[root]) for root in roots]
    waits = ("first plan s, median", "95 %", "final plan s, median", "95 %")
    header = (
        "checkout",
        "questions",
        "visitors",
        "asked",
        "wrong or none",
        *waits,
        "worker CPU s each",
        "server CPU s each",
    )
    show(f"{given.minutes:g} minutes each, {given.repeats} times, two workers", header, rows, "uvicorn", "websockets")


if __name__ == "__main__":
    main()
