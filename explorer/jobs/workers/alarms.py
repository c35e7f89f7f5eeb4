"""What is done when a time is over, by one thread for all of it."""

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

    _due: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _awake: bool = False

    def after(self, seconds: float, act: Callable[[], object]) -> None:
        """Call ``act``, which takes no time worth speaking of, from the thread of this object."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), act))
            self._changed.notify()
            if not self._awake:
                self._awake = True
                threading.Thread(target=self._watch, name="placement-alarms", daemon=True).start()

    def _watch(self) -> None:
        while True:
            with self._changed:
                while self._due and (left_s := self._due[0][0] - time.monotonic()) > 0:
                    self._changed.wait(left_s)
                if not self._due:
                    self._awake = False
                    return
                _, _, act = heapq.heappop(self._due)
            try:
                act()
            except Exception:
                log.exception("what was due could not be done")
