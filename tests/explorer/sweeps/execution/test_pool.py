"""Processes that answer questions: the same rows whatever their number, and however they end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from explorer.question.problems import make_problem
from explorer.sweeps.execution import workers as workers_room
from explorer.sweeps.execution.pool import Here, Pool
from explorer.sweeps.execution.questions import Question
from explorer.sweeps.execution.queue import Course, Nothing
from explorer.sweeps.execution.workers import Returned
from explorer.sweeps.sweep import cell_rows
from tests.explorer.sweeps.execution.remembered import BASE, LIMITS, Remembered, few, plain_rows


@pytest.mark.slow
def test_two_processes_give_the_rows_of_one_and_what_is_stored_is_not_solved_again() -> None:
    question, library = few(), Remembered()
    here = plain_rows(cell_rows(question, BASE, LIMITS, Here(), library))
    assert len(library.stored) == len(question)
    assert [row["started_from"] for row in here] == [None, 0, None, None, None, 4, None, None]
    with closing(Pool(2)) as pool:
        seen: list[Course] = []
        there = plain_rows(cell_rows(question, BASE, LIMITS, pool, Nothing(), on_course=seen.append))
        assert len(pool.processes()) == 2
        assert there == here
        assert max(len(course.running) for course in seen) == 2
        assert (seen[-1].done, seen[-1].cached, seen[-1].running) == (len(question), 0, ())
    with closing(Pool(2)) as pool:
        assert plain_rows(cell_rows(question, BASE, LIMITS, pool, library)) == here
        assert pool.processes() == []  # nobody had to be asked


def test_an_answer_that_nobody_has_read_yet_keeps_its_process_taken() -> None:
    cell = few(("equal",))[0]
    with closing(Pool(1)) as pool:
        question = Question(make_problem(cell.workload, cell.point.settings(BASE)), cell.planner, LIMITS)
        pool.give(0, question, None)
        while any(worker.task is not None for worker in pool.workers):
            time.sleep(0.01)
        assert not pool.free()
        returned: list[Returned] = []
        while not returned:
            returned.extend(pool.wait(1.0))
        assert [each.position for each in returned] == [0]
        assert pool.free()


@pytest.mark.slow
def test_a_process_that_is_killed_costs_its_question_another_try() -> None:
    question = few(("equal",))[:3]
    killed: list[int] = []
    library = Remembered()
    with closing(Pool(2)) as pool:

        def kill_the_first(course: Course) -> None:
            if not killed and course.running:
                killed.append(pool.processes()[0])
                os.kill(killed[0], signal.SIGKILL)

        rows = plain_rows(cell_rows(question, BASE, LIMITS, pool, library, on_course=kill_the_first))
        assert killed[0] not in pool.processes()
    assert [row["status"] for row in rows] == ["FEASIBLE"] * 3
    assert len(library.stored) == 3
    assert rows == plain_rows(cell_rows(question, BASE, LIMITS, Here(), Nothing()))


def test_a_question_that_ends_its_process_twice_is_a_row_and_the_others_stand() -> None:
    question = few(("equal",))[:2]
    library = Remembered()
    with closing(Pool(1)) as pool:

        def kill(course: Course) -> None:
            for process in pool.processes():
                if course.running == (0,):
                    os.kill(process, signal.SIGKILL)

        rows = plain_rows(cell_rows(question, BASE, LIMITS, pool, library, on_course=kill))
    assert [row["status"] for row in rows] == ["FAILED", "FEASIBLE"]
    assert rows[0]["reason"] == "the process that searched ended unexpectedly (exit code -9), twice"
    assert len(library.stored) == 1


def test_who_stops_gets_what_is_there_and_signals_of_the_terminal_end_no_process() -> None:
    question = few(("auto",))
    stop: list[bool] = []
    with closing(Pool(2)) as pool:

        def on_course(course: Course) -> None:
            for process in pool.processes():
                os.kill(process, signal.SIGINT)
                os.kill(process, signal.SIGTERM)
            if course.done:  # two, where both answers wait for this process
                stop.append(True)

        rows = dict(
            cell_rows(question, BASE, LIMITS, pool, Nothing(), should_stop=lambda: bool(stop), on_course=on_course)
        )
        left = pool.processes()
    assert 1 <= len(rows) < len(question)
    assert next(iter(rows.values())).plan is not None  # the other search may have had no time for one
    assert left
    assert not any(Path(f"/proc/{process}").exists() for process in left)  # killed, and waited for


def test_as_many_processes_as_cores_and_memory_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    memory, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    monkeypatch.setattr(workers_room, "MEMORY", memory)
    monkeypatch.setattr(workers_room, "LIMITS", (limit, tmp_path / "none"))
    assert workers_room.room() == cores  # no file says
    memory.write_text(f"MemTotal: 9 kB\nMemAvailable:  {64 * 2**20} kB\n")
    limit.write_text("max\n")
    assert workers_room.room() == cores
    limit.write_text(str(2**30))
    assert workers_room.room() == 1
    memory.write_text("MemAvailable: 10 kB\n")
    assert workers_room.room() == 1
