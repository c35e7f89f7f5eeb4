"""The job that asks questions on a Ray cluster: each is a task, on workers that stay warm.

    python -m explorer.sweeps.execution.ray_driver --most 0 --code 1f2e3d

It runs on the cluster, beside the unpacked questions; what it prints is all that comes back (`sheet`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from explorer.runner.targets.ray_driver import connected, drive, leave
from explorer.sweeps.execution.job_text import (
    SHEET,
    Sheet,
    answer_lines,
    code_hash,
    course_line,
    read_sheet,
    refusal_line,
    version_words,
)
from explorer.sweeps.execution.order import Order
from explorer.sweeps.execution.questions import FAILED, Answer, answer_text
from explorer.sweeps.execution.solving import serve
from solvers.errors import RunError, one_line
from solvers.formats.json_text import dump_json

MOST_TRIES = 3
"""How often a question is asked whose worker or host is lost."""
LOOK_S = 1.0
"""How often the cluster is asked how large it is."""
ROOM_S = 60.0
"""How long it may be without any room."""


class Tasks(Protocol):
    """Answer questions as text, several at a time."""

    def free(self) -> bool: ...

    def give(self, position: int, key: str, question: str, start: str) -> None: ...

    def wait(self, seconds: float) -> Sequence[tuple[int, str]]: ...


def ask_sheet(sheet: Sheet, tasks: Tasks, report: Callable[[str], None]) -> None:
    """Tell an answer to every question that has none, as they come. Raises RunError where there is no room."""
    order = Order(len(sheet.questions), lambda position: sheet.before[position])
    starts = dict(sheet.known)
    running: list[int] = []
    while len(order):
        before = list(running)
        while tasks.free() and (position := order.next()) is not None:
            question = sheet.questions[position]
            if position in sheet.known or question is None:
                order.answered(position, bool(starts.setdefault(position, "")))
                continue
            at = order.start(position)
            running.append(position)
            tasks.give(position, *question, "" if at is None else starts[at])
        if running != before:
            report(course_line(running))
        for position, text in tasks.wait(1.0) if running or len(order) else ():
            running.remove(position)
            starts[position] = start_of(text)
            for line in answer_lines(position, text):
                report(line)
            order.answered(position, bool(starts[position]))


def start_of(text: str) -> str:
    """The plan of an answer for a search to begin with; "" if it has none."""
    answer = json.loads(text)
    if "plan" not in answer:
        return ""
    return dump_json({"devices": len(answer["plan"]["order"]), "messages": answer["messages"], "plan": answer["plan"]})


@dataclass(eq=False)
class RayTasks:
    """At most ``most`` at a time (0: as many as the cluster has cores). A question whose worker or host is lost is
    asked again."""

    ray: Any
    graphs: dict[str, str]
    most: int
    _references: dict[str, Any] = field(default_factory=dict)
    _running: dict[Any, tuple[int, str, str, str]] = field(default_factory=dict)
    _tries: dict[int, int] = field(default_factory=dict)
    _cores: int = 0
    _looked_s: float = float("-inf")
    _room_s: float = field(default_factory=time.monotonic)

    def free(self) -> bool:
        now = time.monotonic()
        if now - self._looked_s > LOOK_S:
            self._looked_s, self._cores = now, int(self.ray.cluster_resources().get("CPU", 0))
        if self._cores:
            self._room_s = now
        return len(self._running) < (min(self._cores, self.most) if self.most else self._cores)

    def give(self, position: int, key: str, question: str, start: str) -> None:
        if key not in self._references:
            self._references[key] = self.ray.put(self.graphs[key])
        self._tries[position] = self._tries.get(position, 0) + 1
        task = self.ray.remote(num_cpus=1, max_retries=0, max_calls=0)(serve)
        self._running[task.remote(key, self._references[key], question, start)] = (position, key, question, start)

    def wait(self, seconds: float) -> Sequence[tuple[int, str]]:
        if not self._running:
            if time.monotonic() - self._room_s > ROOM_S:
                raise RunError(f"the cluster had no core for {ROOM_S:g} s")
            time.sleep(min(seconds, LOOK_S))
            return []
        done, _ = self.ray.wait(list(self._running), num_returns=1, timeout=seconds)
        if done:  # and whatever else is there by now
            done, _ = self.ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        answers = []
        for reference in done:
            task = self._running.pop(reference)
            try:
                answers.append((task[0], self.ray.get(reference)))
            except self.ray.exceptions.RayError as error:
                if not self._again(error, task):
                    answers.append((task[0], answer_text(Answer(FAILED, reason=self._words(error, task[0])))))
        return answers

    def _again(self, error: Exception, task: tuple[int, str, str, str]) -> bool:
        if isinstance(error, self.ray.exceptions.RayTaskError) or self._tries[task[0]] >= MOST_TRIES:
            return False
        self.give(*task)
        return True

    def _words(self, error: Exception, position: int) -> str:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        message = lines[-1] if isinstance(error, self.ray.exceptions.RayTaskError) else lines[0]
        tries = self._tries[position]
        return one_line(f"the worker on the cluster was lost{f' {tries} times' if tries > 1 else ''}: {message}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job. Returns the exit status: 0 only with all answers."""
    parser = argparse.ArgumentParser(prog="ray_driver")
    parser.add_argument("--most", type=int, required=True, help="questions at a time; 0: one a core")
    parser.add_argument("--code", required=True, help="of the client")
    arguments = parser.parse_args(argv)
    return drive(lambda: _solve(arguments.most, arguments.code), lambda failure: _print(refusal_line(failure.reason)))


def _solve(most: int, code: str) -> int:
    if code != code_hash():
        there, here = version_words(code_hash()), version_words(code)
        raise RunError(
            f"the cluster's packages are of another version, {there} and not {here}: install the same there, or"
            " leave out installed in the target's settings, and they are sent"
        )
    sheet = read_sheet(Path(SHEET).read_text(encoding="utf-8"))
    ask_sheet(sheet, RayTasks(connected(), dict(sheet.graphs), most), _print)
    return 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    leave(main)
