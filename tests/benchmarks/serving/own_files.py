"""Visitors with files of their own on one server, whose workers are killed: is every picture's graph its plan's?

python -m tests.benchmarks.serving.own_files [--visitors 30] [--minutes 10] [--kill-every 20]

Every visitor hands in small graphs that nobody else has, goes back and forth between them and asks questions. Of every
plan that is drawn, the graph on the page, the graph that was planned and the file that was asked about are compared, by
the hash that each has of its operators and of what flows between them, and by the names of the operators.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from websockets.exceptions import ConnectionClosed

from explorer.question.loading import load_file
from explorer.view.graph.skeleton import structure_hash
from explorer.web.serving.files import NAME, PATH, TOKEN
from tests.benchmarks.serving.crowd import DONE, counted, opened, words
from tests.benchmarks.serving.watching import Watch
from tests.browser.serving.commands import Served

FILES = 3
"""Of each visitor: together more than the server keeps, and many more than graphs that its pages share."""
THINK_S = 2.0
PATIENCE_S = 300.0


def graph(draw: random.Random, prefix: str) -> dict[str, Any]:
    """A workload of MSR 2020 whose operators' names begin with ``prefix``."""
    count = draw.randint(4, 14)
    nodes = [
        {
            "id": i, "name": f"{prefix}{i}", "supportedOnFpga": 1, "cpuLatency": 9.0, "isBackwardNode": 0,
            "fpgaLatency": draw.uniform(0.5, 3.0), "colorClass": i, "size": 1.0,
        }
        for i in range(count)
    ]  # fmt: skip
    edges = [{"sourceId": draw.randrange(i), "destId": i, "cost": 0.3} for i in range(1, count)]
    return {"maxFPGAs": 3, "maxCPUs": 1, "maxSizePerFPGA": 100.0, "nodes": nodes, "edges": edges}


@dataclass(frozen=True)
class File:
    """prefix: of the names of its operators; of: the hash of its graph."""

    prefix: str
    of: str
    content: bytes


def make_file(folder: Path, prefix: str) -> File:
    content = json.dumps(graph(random.Random(prefix), prefix)).encode()
    path = folder / f"{prefix}.json"
    path.write_bytes(content)
    return File(prefix, structure_hash(load_file(str(path)).graph), content)


@dataclass
class Owner:
    """A visitor. wrong: pictures whose graph, plan and file are not one. refusals: what it got in place of plans."""

    address: str
    files: list[File]
    number: int
    names: dict[str, File] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.number)
        self._drawn, self._labels = "", [""]

    async def live(self, until: float) -> None:
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._visit(until)
            except (ConnectionClosed, OSError, TimeoutError) as error:
                self.counts[type(error).__name__] += 1
                await asyncio.sleep(0.3)

    async def _visit(self, until: float) -> None:
        """Some questions on one page."""
        page = await opened(self.address, {})
        self._drawn = ""
        token = json.loads(await page.recv())["token"]
        for _ in range(self._draw.randint(2, 6)):
            if time.monotonic() >= until:
                break
            file = self._draw.choice(self.files)
            name = next((name for name, known in self.names.items() if known is file), "")
            if not name or self._draw.random() < 0.3:
                name = await asyncio.to_thread(self._hand_in, file, token)
                self.names = {known: one for known, one in self.names.items() if one is not file} | {name: file}
                await self._hear(page, ("opened", "refused"))
            session = {"model": name, "devices": self._draw.randint(1, 3), "seed": self._draw.randrange(3)}
            fresh = self._draw.random() < 0.5
            await page.send(json.dumps({"type": "solve", "fresh": fresh, "session": session | {"time_limit": 10}}))
            if self._draw.random() < 0.2:  # asks something else before it is answered
                await asyncio.sleep(self._draw.uniform(0, 0.3))
                continue
            if not await self._hear(page, DONE):
                self.names.pop(name)
            await asyncio.sleep(self._draw.expovariate(1 / THINK_S))
        await page.close()

    def _hand_in(self, file: File, token: str) -> str:
        headers = {TOKEN: token, NAME: f"{file.prefix}.json", "Origin": self.address.rstrip("/")}
        request = urllib.request.Request(self.address.rstrip("/") + PATH, file.content, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            self.counts["files"] += 1
            return str(json.load(answer)["file"])

    async def _hear(self, page: Any, ends: tuple[str, ...]) -> bool:
        """Until one of ``ends``; whether there was a final plan."""
        turn, question, banner = None, None, ""
        async for text in page:
            message = json.loads(text)
            kind = message["type"]
            if kind == "graph":
                self._drawn = message["of"]
                self._labels = [e["data"]["name"] for e in message["elements"] if "name" in e["data"]]
            elif kind == "plan":
                self._look(message, question if message["turn"] == turn else None)
            elif kind == "banner":
                banner = words(message["children"])
            elif kind == "status" and message.get("asked"):
                turn, banner = message["turn"], ""
                question = self.names.get(parse_qs(message["query"])["model"][0])
            state = message["state"] if kind == "status" else kind
            if state in ends and (kind != "status" or message["turn"] == turn or banner):
                if state not in ("optimal", "feasible", "opened"):
                    self.refusals.append(banner or state)
                    return False
                self.counts[state] += 1
                return True
        raise ConnectionResetError

    def _look(self, plan: dict[str, Any], file: File | None) -> None:
        """file: None for a plan of the question before, which may be about another."""
        self.counts["plans"] += 1
        own = file or next((one for one in self.files if one.of == plan["of"]), None)
        named = own is not None and all(label.startswith(own.prefix) for label in self._labels)
        if own is None or not plan["of"] == self._drawn == own.of or not named:
            self.wrong.append(f"visitor {self.number}: planned {plan['of']}, drawn {self._drawn}, asked {own}")


async def crowd(server: Served, owners: list[Owner], seconds: float, kill_every_s: float) -> int:
    watch, until = Watch(server.process.pid), time.monotonic() + seconds
    await asyncio.gather(watch.kill(until, kill_every_s), *(owner.live(until) for owner in owners))
    return watch.killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds, on average")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = [[make_file(Path(folder), f"v{number}f{i}o") for i in range(FILES)] for number in range(given.visitors)]
    with Served({}, "gpt-small", "--workers", "2", "--no-library") as server:
        owners = [Owner(server.address, own, number) for number, own in enumerate(files)]
        killed = asyncio.run(crowd(server, owners, 60 * given.minutes, given.kill_every))
    total = sum((owner.counts for owner in owners), Counter())
    wrong = [line for owner in owners for line in owner.wrong]
    print(f"{given.visitors} visitors, {given.minutes:g} minutes, workers killed: {killed}; {dict(total)}")
    for message, times in counted([line for owner in owners for line in owner.refusals]).items():
        print(f"- {times} x {message[:200]}")
    print(f"pictures whose graph is not their plan's: {len(wrong)}", *wrong[:10], sep="\n")
    if "Traceback" in server.output:
        print(server.output[-3000:])
    raise SystemExit(1 if wrong or "Traceback" in server.output else 0)


if __name__ == "__main__":
    main()
