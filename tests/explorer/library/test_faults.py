"""Whatever happens to the file or the process, the file opens and holds whole answers, and no answer is lost to it."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from explorer.library import layout
from explorer.library.browsing import browse
from explorer.library.cached_solver import CachedSolver
from explorer.library.layout import APPLICATION, VERSION
from explorer.library.library import Library
from explorer.library.place import LibraryTrouble
from tests.explorer.library.questions import answer, chain, search_question
from tests.explorer.library.writers import (
    PATIENCE_S,
    RESULT,
    Child,
    ask_as_nobody,
    ask_with_little_room,
    keep_on,
    make_and_die,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plans.sqlite"


def whole(path: Path) -> set[str]:
    """The questions in the file, each of which has its whole answer."""
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
        count = file.execute("SELECT count(*) FROM answers").fetchone()[0]
    with Library(path) as library:
        listed = browse(library)
    assert len(listed) == count
    return {one.question for one in listed}


@pytest.mark.parametrize("kills", [8, pytest.param(300, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_what_was_kept_survives_kill_9_at_any_write(path: Path, kills: int) -> None:
    """At each the writer is somewhere else."""
    rng = random.Random(0)
    messages: list[object] = []
    for turn in range(kills):
        child = Child(keep_on, path, turn * 100_000)
        messages += [child.pipe.recv() for _ in range(rng.randrange(1, 6))]
        time.sleep(rng.random() * 0.01)
        messages += child.kill()
        stored = whole(path)
        assert (
            len(messages) <= len(stored) <= len(messages) + turn + 1
        )  # at each kill one may be there that was not reported
    assert {search_question(seed=seed).hash for seed in messages} <= stored
    with Library(path) as library:
        for seed in messages:
            known = library.find(search_question(seed=seed))
            assert known is not None
            assert known.result.plan == RESULT.plan


def test_a_kill_while_the_file_is_made_leaves_one_that_can_be_used(path: Path) -> None:
    question = search_question()
    result = answer(question)
    ends = []
    for stop in range(11):  # as many statements make it, and one more
        place = path.with_name(f"{stop}.sqlite")
        ends.append(Child(make_and_die, place, stop).messages())
        with Library(place) as library:
            assert library.store(question, result, "")
            assert library.find(question) is not None
    assert ends[0] == []
    assert ends[-1] == ["made"]


def test_two_processes_keep_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BUSY_S", PATIENCE_S)
    both = [Child(keep_on, path, first) for first in (0, 1_000_000)]
    messages = [child.pipe.recv() for child in both for _ in range(20)]
    with Library(path) as library:  # a third one
        assert library.store(search_question(seed=-1), RESULT, "")
    for child in both:
        messages += child.kill()
    assert {search_question(seed=seed).hash for seed in (*messages, -1)} <= whole(path)


class Overtaken(sqlite3.Connection):
    """Another process makes the file between two things that are read of it."""

    path: Path

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        if statement == "PRAGMA user_version":
            with closing(layout._connected(self.path, True)) as other, suppress(sqlite3.OperationalError):  # locked
                layout._make(self.path, other)
        return super().execute(statement, *values)


def test_a_file_that_another_process_makes_meanwhile_is_no_other_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "BUSY_S", 0.0)
    path.touch()
    with closing(sqlite3.connect(path, isolation_level=None, factory=Overtaken)) as connection:
        connection.path = path
        layout._checked(path, connection, writable=True)
    assert whole(path) == set()


@pytest.mark.parametrize("limit", [1, 4096, 30_000])
def test_where_files_cannot_grow_the_answer_is_given_and_one_line_reported(path: Path, limit: int) -> None:
    with Library(path) as library:
        library.store(search_question(seed=7), answer(search_question()), "")
    shown = Child(ask_with_little_room, path, limit).messages()
    assert [one[1] for one in shown if one[0] == "plan"] == [28.0, 52.0]
    message = [one[1] for one in shown if one[0] == "said"]
    assert 1 <= len(message) <= 2  # once for each answer that could not be kept, or once for the file
    assert all(str(path) in line and "\n" not in line for line in message)
    assert whole(path) == {search_question(seed=7).hash}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """One of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("only the superuser mounts disks")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("free", [0, 4096, 40_000, 100_000])
def test_on_a_full_disk_the_answer_is_given_and_what_was_kept_stays(small_disk: Path, free: int) -> None:
    path = small_disk / "plans.sqlite"
    with Library(path) as library:
        library.store(search_question(seed=7), answer(search_question()), "")
    room = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "filler").write_bytes(b"x" * max(0, room - free))
    messages: list[str] = []
    result = answer(search_question())
    with CachedSolver(path, report=messages.append) as solver:
        for seconds in (1, 2, 3):
            assert solver(chain(float(seconds)), "equal").plan is not None
    assert all("\n" not in line and str(path) in line for line in messages)
    if free < 40_000:
        assert messages
    (small_disk / "filler").unlink()
    with Library(path) as library:
        assert library.find(search_question(seed=7)) is not None
        for seed in range(1000, 1400):  # until it is full again
            try:
                library.store(search_question(seed=seed), result, "m" * 2000)
            except LibraryTrouble as error:
                message = str(error)
                break
        else:
            pytest.fail("400 answers of 2 KB fit on a disk of 256 KiB")
        assert "full" in message
        assert library.find(search_question(seed=7)) is not None
        assert library.find(search_question(seed=seed)) is None
        assert library.find(search_question(seed=seed - 1)) is not None


def test_a_file_from_a_newer_version_is_refused_in_one_line_and_left_alone(path: Path) -> None:
    with Library(path) as library:
        library.store(search_question(), answer(search_question()), "")
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {VERSION + 1}")
        file.execute("ALTER TABLE answers ADD COLUMN colour TEXT")
        file.commit()
        file.execute("PRAGMA journal_mode = DELETE").fetchone()
    before = path.read_bytes()
    with pytest.raises(LibraryTrouble, match="written by a newer version of placement-explorer") as caught:
        Library(path)
    assert "\n" not in str(caught.value)
    messages: list[str] = []
    with CachedSolver(path, report=messages.append) as solver:
        assert solver(chain(), "equal").plan is not None
    assert len(messages) == 1
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE answers (mine)")
        file.execute("INSERT INTO answers VALUES ('not a plan')")
        file.commit()
    before = path.read_bytes()
    with pytest.raises(LibraryTrouble, match="is no library of plans but another file"):
        Library(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_library_with_a_trigger_in_it_is_no_library(path: Path) -> None:
    with Library(path):
        pass
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TRIGGER more AFTER INSERT ON answers BEGIN DELETE FROM answers; END")
        file.commit()
    with pytest.raises(LibraryTrouble, match="is no library of plans but another file"):
        Library(path)


def test_a_damaged_file_costs_no_answer_and_never_gives_a_wrong_one(path: Path) -> None:
    """Pages of it are overwritten, one after the other, and bits in between."""
    questions = [search_question(chain(float(seconds))) for seconds in range(1, 9)]
    with Library(path) as library:
        for question in questions:
            library.store(question, answer(question), "m" * 3000)
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode = DELETE").fetchone()
    good = path.read_bytes()
    right = [answer(question).objective_s for question in questions]
    rng = random.Random(1)
    noticed = 0
    for turn in range(30):
        spoiled = bytearray(good)
        if turn % 3 == 0:
            at = rng.randrange(len(good) // 4096) * 4096
            spoiled[at : at + 4096] = rng.randbytes(4096)
        elif turn % 3 == 1:
            for _ in range(20):
                spoiled[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
        else:
            del spoiled[rng.randrange(100, len(good)) :]
        place = path.with_name(f"{turn}.sqlite")
        place.write_bytes(spoiled)
        messages: list[str] = []
        with CachedSolver(place, report=messages.append, solve=lambda *_, **__: answer(search_question())) as solver:
            for question, objective_s in zip(questions, right, strict=True):
                known = solver.known(question)
                assert known is None or (known.objective_s, known.problem) == (objective_s, question.problem)
                solver.store(question, answer(question)) if turn % 10 == 0 else None
        assert all("\n" not in line for line in messages)
        noticed += bool(messages)
    assert noticed > 15


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser becomes somebody else")
def test_a_folder_that_cannot_be_written_is_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Path(tempfile.mkdtemp())  # pytest's own are for their owner only
    try:
        path = folder / "plans.sqlite"
        with CachedSolver(path) as solver:
            solver(chain(), "equal")
        path.chmod(0o644)
        folder.chmod(0o555)
        known, messages, plan = Child(ask_as_nobody, path).messages()
        assert known[:2] == ("plan", 28.0)
        assert known[2][0].startswith("cached result of")
        assert messages == ("said", f"the library of plans {path} can be read, and not written; the answer is not kept")
        assert plan == ("plan", 52.0, ())
        messages, *plans = Child(ask_as_nobody, folder / "more" / "plans.sqlite").messages()
        assert messages[1].endswith("cannot be used: permission denied; so no answer is looked up or kept")
        assert plans == [("plan", 28.0, ()), ("plan", 52.0, ())]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_library_that_another_process_holds_costs_no_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.library.layout.BUSY_S", 0.05)
    with Library(path) as library:
        library.store(search_question(), answer(search_question()), "")
    messages: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with CachedSolver(path, report=messages.append) as solver:
            assert solver(chain(), "equal").notes[-1].startswith("cached result of")  # whoever reads waits for nobody
            assert solver(chain(2.0), "equal").plan is not None
        holder.execute("ROLLBACK")
    (line,) = messages
    assert line.endswith(": another process has been writing for 0.05 s; the answer is not kept")


def test_a_file_is_marked_as_ours(path: Path) -> None:
    with Library(path):
        assert path.read_bytes()[68:72] == APPLICATION.to_bytes(4, "big")
