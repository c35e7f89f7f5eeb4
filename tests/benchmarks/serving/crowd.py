"""Clients that speak the page's protocol, each with questions whose answers nobody else gets."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

CLIENTS = 40
"""At most: a client's number is its caps' remainder by this, in hundredths of GiB."""
CAPS = range(100, 1000)
DEVICES = (2, 3, 4)
DONE = ("optimal", "feasible", "infeasible", "none", "failed", "cancelled")
FLOOD_PER_S = 200.0


@dataclass(frozen=True, slots=True)
class Question:
    """Nobody but the same client ever asks for as many devices with this cap."""

    model: str
    devices: int
    cap: int
    """Hundredths of a GiB, of each device."""
    planner: str
    effort: str = "quick"
    time_limit_s: int = 10

    @property
    def session(self) -> dict[str, Any]:
        settings = {"model": self.model, "devices": self.devices, "memory": round(self.cap / 100 * 2**30)}
        return {
            **settings,
            "planner": self.planner,
            "effort": self.effort,
            "time_limit": self.time_limit_s,
            "micro_batches": 8,
        }

    @property
    def message(self) -> dict[str, Any]:
        return {"type": "solve", "session": self.session}

    @property
    def limits(self) -> list[float]:
        """What the answer states of each device's memory, in GiB."""
        return [self.cap / 100] * self.devices


def questions(client: int, models: Sequence[str], planners: Sequence[str], seed: int) -> Iterator[Question]:
    """Without end. client: below CLIENTS."""
    draw = random.Random(f"{seed} {client}")
    caps = [cap for cap in CAPS if cap % CLIENTS == client]
    while True:
        yield Question(draw.choice(models), draw.choice(DEVICES), draw.choice(caps), draw.choice(planners))


@dataclass(slots=True)
class Attempt:
    """What became of a question. wait to first and final plan in s, None if there was none. refusal: the page's words
    where there is no plan. tries: connections it took; lost: those that the server ended."""

    question: Question
    at_s: float
    first_s: float | None = None
    final_s: float | None = None
    refusal: str = ""
    tries: int = 1
    lost: int = 0
    foreign: int = 0
    """Plans that it was sent as its own and that are somebody else's."""

    @property
    def answered(self) -> bool:
        return self.final_s is not None or bool(self.refusal)


@dataclass
class Client:
    """Asks, waits, thinks, asks again. drop: the share of its questions during which its connection is cut. fresh:
    whatever was answered before. clock: by which waits are measured."""

    address: str
    number: int
    questions: Iterator[Question]
    headers: Mapping[str, str] = field(default_factory=dict)
    think_s: float = 5.0
    drop: float = 0.0
    patience_s: float = 180.0
    fresh: bool = True
    clock: Callable[[], float] = time.monotonic
    attempts: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.number)
        self._page: ClientConnection | None = None

    async def live(self, until: float) -> None:
        """until: of `time.monotonic`."""
        await asyncio.sleep(self._draw.uniform(0, self.think_s))
        while time.monotonic() < until:
            await self.submit(next(self.questions))
            await asyncio.sleep(self._draw.expovariate(1 / self.think_s))
        if self._page is not None:
            await self._page.close()

    async def submit(self, question: Question) -> Attempt:
        """Until it is answered, over as many connections as it takes, as a page does that asks again."""
        variant = Attempt(question, self.clock())
        self.attempts.append(variant)
        drop = self._draw.random() < self.drop
        try:
            async with asyncio.timeout(self.patience_s):
                while not variant.answered:
                    try:
                        page = await self._open()
                        await page.send(json.dumps(question.message | {"fresh": self.fresh}))
                        if drop:
                            drop = False
                            await self._cut(page)
                        else:
                            await self._hear(page, variant)
                    except (ConnectionClosed, OSError):
                        self._page = None
                        variant.lost += 1
                        await asyncio.sleep(0.3)
                    variant.tries += not variant.answered
        except TimeoutError:
            self._page = None
        return variant

    async def _open(self) -> ClientConnection:
        if self._page is None:
            self._page = await opened(self.address, self.headers)
        return self._page

    async def _cut(self, page: ClientConnection) -> None:
        """As when a cable is pulled: nobody says good-bye."""
        await asyncio.sleep(self._draw.uniform(0, 0.5))
        page.transport.abort()
        self._page = None

    async def _hear(self, page: ClientConnection, sent: Attempt) -> None:
        turn, banner = None, ""
        async for text in page:
            message = json.loads(text)
            kind = message["type"]
            if kind == "status" and message.get("asked"):
                turn = message["turn"]
            elif kind == "plan" and message["turn"] == turn:
                now = self.clock() - sent.at_s
                sent.foreign += limits(message) != sent.question.limits
                sent.first_s = now if sent.first_s is None else sent.first_s
                if message["reason"] == "final":
                    sent.final_s = now
                    return
            elif kind == "banner":
                banner = words(message["children"])
            elif kind == "status" and message["state"] in DONE and (message["turn"] == turn or banner):
                sent.refusal = banner or message["state"]
                return


async def opened(address: str, headers: Mapping[str, str]) -> ClientConnection:
    origin = address.rstrip("/")
    at = address.replace("http", "ws", 1) + "live"
    return await connect(
        at, origin=origin, additional_headers=headers, max_size=None, open_timeout=60, compression=None
    )


async def flood(address: str, client: int, stream: Iterator[Question], headers: Mapping[str, str], until: float) -> int:
    """Ask without waiting for any answer; how often. A connection that is lost is opened again."""
    sent = 0
    while time.monotonic() < until:
        try:
            page = await opened(address, headers)
            ears = asyncio.create_task(_all_of_it(page))
            try:
                while time.monotonic() < until:
                    question = next(stream)
                    await page.send(json.dumps(question.message | {"fresh": True}))
                    sent += 1
                    await asyncio.sleep(1 / FLOOD_PER_S)
            finally:
                ears.cancel()
                await asyncio.gather(ears, return_exceptions=True)
            await page.close()
        except (ConnectionClosed, OSError):
            await asyncio.sleep(0.3)
    return sent


async def _all_of_it(page: ClientConnection) -> None:
    async for _ in page:
        pass


def limits(plan: Mapping[str, Any]) -> list[float]:
    """GiB of each device's cap, as a plan's memory lists them."""
    return [float(device["limit"].removesuffix(" GiB")) for device in plan["memory"]]


def words(children: object) -> str:
    """The text of a banner."""
    return " ".join(re.findall(r'"children": "([^"]{6,})"', json.dumps(children)))


def counted(messages: Sequence[str]) -> dict[str, int]:
    """How often each message came, numbers left out."""
    plain = sorted(re.sub(r"[0-9][0-9.]*", "N", " ".join(each.split())) for each in messages)
    return {each: len(list(same)) for each, same in itertools.groupby(plain)}
