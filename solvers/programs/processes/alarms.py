"""Calls that are made when a time is over, by one thread for all of them."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass
class Alarms:
    """What is to be done after so many seconds: by one thread for all of it, which is there while something is due."""

    _due: list[tuple[float, int]] = field(default_factory=list)
    _acts: dict[int, Callable[[], object]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _awake: bool = False

    def after(self, seconds: float, act: Callable[[], object]) -> int:
        """Call ``act``, which takes no time worth speaking of, from the thread of this object. Returns a number to
        `forget` it by."""
        with self._changed:
            number = next(self._numbers)
            self._acts[number] = act
            heapq.heappush(self._due, (time.monotonic() + seconds, number))
            self._changed.notify()
            if not self._awake:
                self._awake = True
                threading.Thread(target=self._watch, name="placement-alarms", daemon=True).start()
            return number

    def forget(self, number: int) -> None:
        """It need not be done; one that is done or unknown is ignored."""
        with self._changed:
            if self._acts.pop(number, None) is not None:
                if len(self._due) > 2 * len(self._acts) + 64:
                    self._due = [due for due in self._due if due[1] in self._acts]
                    heapq.heapify(self._due)
                self._changed.notify()

    def _watch(self) -> None:
        while True:
            with self._changed:
                act = self._next()
                if act is None:
                    self._awake = False
                    return
            try:
                act()
            except Exception:
                log.exception("what was due could not be done")

    def _next(self) -> Callable[[], object] | None:
        """What is due next, once it is; None when nothing is left."""
        while self._acts:
            at, number = self._due[0]
            if number in self._acts and (left_s := at - time.monotonic()) > 0:
                self._changed.wait(left_s)
                continue
            heapq.heappop(self._due)
            if number in self._acts:
                return self._acts.pop(number)
        self._due.clear()
        return None
