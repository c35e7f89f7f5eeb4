"""A sweep of 200 questions on one process, on the local pool and on a real Ray cluster of two nodes with one core each:
the same rows, also when a node is killed in the middle and when the sweep is interrupted and goes on; and what a
question costs beside its search.

All nodes are this machine, so that the pool and the cluster share its cores with each other's overhead, and with
whatever else runs. SWEEP_PARTS chooses among rows, interrupted and overhead.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from explorer.question.loading import load
from explorer.question.settings import Settings
from explorer.runner.targets.target_file import RaySetup
from explorer.sweeps.execution.cluster import Cluster
from explorer.sweeps.execution.pool import Here, Pool
from explorer.sweeps.execution.questions import Limits
from explorer.sweeps.execution.queue import Course, Nothing
from explorer.sweeps.points import Axes, points
from explorer.sweeps.sweep import Cell, Row, cell_rows, cells, row_object
from solvers.formats.graph_json import write_graph
from solvers.formats.workload import Workload
from solvers.search.effort import Effort
from tests.benchmarks.table import show
from tests.explorer.runner.targets.ray_head import ROOT, Head, _processes, _session, running_head
from tests.explorer.view.small import branches, chain

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3 * 3600)]

PARTS = os.environ.get("SWEEP_PARTS", "rows,interrupted,overhead").split(",")
PLANNERS = "auto,pipedream,linear-dp,equal"
DEVICES, MICRO_BATCHES, MINI_BATCH = "2,3,4,5,6", "2,4,8,16,32", 32
SETTINGS = Settings(mini_batch=MINI_BATCH)
COUNT = 200
EARLY = 40
"""Answers after which somebody interrupts, or a node dies."""

PlainRows = list[dict[str, Any]]


def models(folder: Path) -> list[Path]:
    files = []
    for workload in (Workload(chain(3, 4), "chain"), Workload(branches(), "branches")):
        files.append(folder / f"{workload.reference}.json")
        files[-1].write_text(write_graph(workload))
    return files


def cells_of(files: list[Path], planners: str = PLANNERS, caps: tuple[float, ...] = ()) -> tuple[Cell, ...]:
    numbers = [tuple(map(int, values.split(","))) for values in (DEVICES, MICRO_BATCHES)]
    axes = Axes(numbers[0], numbers[1], (), caps)
    return cells([load(str(file)) for file in files], planners.split(","), points(axes))


def plain_rows(rows: list[Row]) -> PlainRows:
    return [{**row_object(row), "model": row.model, "planner": row.planner, "runtime_s": None} for row in rows]


def timed(questions: tuple[Cell, ...], workers: Any, **more: Any) -> tuple[PlainRows, list[object]]:
    """The rows, and a line of the table: seconds, seconds of the searches, seconds beside these a question."""
    load_before, began = os.getloadavg()[0], time.perf_counter()
    by_position = dict(
        cell_rows(questions, Settings(mini_batch=MINI_BATCH), Limits(Effort.QUICK), workers, Nothing(), **more)
    )
    took_s = time.perf_counter() - began
    rows = [by_position[position] for position in sorted(by_position)]
    assert len(rows) == len(questions)
    searched_s = sum(row.result.runtime_s for row in rows if row.result is not None)
    return plain_rows(rows), [f"{took_s:.1f}", f"{searched_s:.1f}", f"{load_before:.1f} to {os.getloadavg()[0]:.1f}"]


def pooled(questions: tuple[Cell, ...], count: int) -> tuple[PlainRows, list[object]]:
    with closing(Pool(count)) as pool:
        return timed(questions, pool)


def cluster(head: Head, owner: str) -> Cluster:
    return Cluster(RaySetup("here", head.address, installed=True), head.token, owner=owner)


@pytest.mark.skipif("rows" not in PARTS, reason="not asked for")
def test_the_same_rows_wherever_they_are_solved(tmp_path: Path) -> None:
    questions = cells_of(models(tmp_path))
    assert len(questions) == COUNT
    expected, line = timed(questions, Here())
    lines = [["one process", *line]]

    def add(name: str, measured: tuple[PlainRows, list[object]]) -> None:
        assert measured[0] == expected, name
        lines.append([name, *measured[1]])

    add("pool of 2, started within", pooled(questions, 2))
    with running_head(cpus=1) as head:
        add("Ray, 2 nodes of 1 core", timed(questions, cluster(head, "first")))
        add("the same in another job", timed(questions, cluster(head, "second")))
        add(f"a node killed after {EARLY} answers", timed(questions, cluster(head, "third"), on_course=_kills(head)))
    heads = ("asked of", "s", "s of all searches", "load average")
    show(f"{COUNT} questions, the same rows each time", heads, lines, "numpy", "numba", "ray")


def _kills(head: Head) -> Callable[[Course], None]:
    """Kills the second node."""
    dead: list[int] = []

    def on_course(course: Course) -> None:
        if course.done >= EARLY and not dead:
            dead.extend(process for process in _processes() if _session(process) == head.sessions[1])
            assert dead
            for process in dead:
                os.kill(process, signal.SIGKILL)

    return on_course


@pytest.mark.skipif("interrupted" not in PARTS, reason="not asked for")
def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    files = models(tmp_path)
    questions = cells_of(files)
    expected, _ = pooled(questions, 2)
    lines = []
    with running_head(cpus=1) as head:
        targets = tmp_path / "targets.toml"
        targets.write_text(
            f'[here]\nkind = "ray"\naddress = "{head.address}"\ntoken_env = "SWEEP_TOKEN"\ninstalled = true\n'
        )
        for where, number in (("local", signal.SIGINT), ("here", signal.SIGINT), ("here", signal.SIGKILL)):
            library = tmp_path / f"{where}-{number}.sqlite"
            command = [
                sys.executable, "-m", "explorer", "sweep", *map(str, files), "--planner", PLANNERS,
                "--devices", DEVICES, "--micro-batches", MICRO_BATCHES, "--mini-batch", str(MINI_BATCH),
                "--effort", "quick", "--workers", "2", "--on", where, "--targets", str(targets),
                "--library", str(library), "--json",
            ]  # fmt: skip
            environment = {**os.environ, "SWEEP_TOKEN": head.token}
            running = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT)
            while len(stored_at(library)) < EARLY:
                assert running.poll() is None
                time.sleep(0.1)
            running.send_signal(number)
            running.wait()
            first = stored_at(library)
            began = time.perf_counter()
            ended = subprocess.run(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT, check=True)
            took_s = time.perf_counter() - began
            last = stored_at(library)
            rows = [{**row, "plan": None, "runtime_s": None} for row in json.loads(ended.stdout)]
            assert [{key: row[key] for key in expected[0]} for row in rows] == expected
            assert EARLY <= len(first) < len(last) == COUNT
            assert first.items() <= last.items(), "nothing is asked twice"
            lines.append([where, signal.Signals(number).name, len(first), len(last) - len(first), f"{took_s:.1f}"])
    show("interrupted, and the same command again", ("on", "signal", "kept", "kept then", "s then"), lines, "ray")


def stored_at(library: Path) -> dict[str, str]:
    """Question -> when its answer was kept."""
    if not library.exists():
        return {}
    with closing(sqlite3.connect(library, timeout=10)) as connection:
        try:
            return dict(connection.execute("SELECT question, kept_at FROM answers").fetchall())
        except sqlite3.OperationalError:  # no tables yet
            return {}


@pytest.mark.skipif("overhead" not in PARTS, reason="not asked for")
def test_what_a_question_costs_beside_its_search(tmp_path: Path) -> None:
    questions = cells_of(models(tmp_path), "equal", (2.0**34, 2.0**35, 2.0**36, 2.0**37))
    assert len(questions) == COUNT
    expected, line = timed(questions, Here())
    lines = [["one process", *line]]
    with closing(Pool(1)) as pool:
        list(cell_rows(questions[:1], SETTINGS, Limits(), pool, Nothing()))
        rows, line = timed(questions, pool)
    assert rows == expected
    lines.append(["pool of 1, warm", *line])
    with running_head(cpus=1) as head:
        for name in ("Ray, 2 nodes of 1 core", "the same in another job"):
            rows, line = timed(questions, cluster(head, name))
            assert rows == expected
            lines.append([name, *line])
    for line in lines:
        line.insert(3, f"{1e3 * (float(line[1]) - float(line[2])) / COUNT:.0f}")
    heads = ("asked of", "s", "s of all searches", "ms beside it a question", "load average")
    show(f"{COUNT} questions of a few milliseconds", heads, lines, "ray")
