"""The library: find the answer to an exact question, and keep one."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from explorer.library.layout import opened, trouble
from explorer.library.place import LibraryTrouble
from explorer.library.rows import COLUMNS, Listed, is_better, packed, read_row, row_of, worth_keeping
from solvers.errors import PlacementError
from solvers.plan.result import Result

if TYPE_CHECKING:
    from explorer.library.question_key import SearchQuestion

MOST_BYTES = 2 * 2**30
"""The file grows no further: what was kept first goes first."""
SHARE = 16
"""One in so many answers goes at a time."""
_HAS_GRAPH = "SELECT 1 FROM graphs WHERE sha256 = ?"
_ALL = ", ".join((*COLUMNS, "answer", "checksum"))

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Known:
    """An answer that was found. result: verified, with a note that says since when it is known."""

    result: Result
    listed: Listed


class Library:
    """The file at ``path``, made if there is none. Any number of threads and processes may use it at once, each with
    one of its own or shared; after a fork it opens the file again. To be closed, or used in a ``with``.

    Every method, and opening it, raises LibraryTrouble, in one line, where the file cannot be used.
    """

    def __init__(self, path: str | os.PathLike[str], *, most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(path).absolute()
        self._most_bytes = most_bytes
        self._lock = threading.RLock()
        self._left: list[sqlite3.Connection] = []  # of the process that this one was forked from: not to be touched
        self._open()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._process == os.getpid():
                with suppress(sqlite3.Error):
                    self._connection.close()

    def find(self, question: SearchQuestion) -> Known | None:
        """The answer to this very question, if the code of today gave it. An answer that is damaged, or whose plan does
        not verify, is dropped, which is the LibraryTrouble that says so."""
        from explorer.library.answer import read_answer  # whoever lists answers needs no kernels

        if not question.nameable:
            return None
        rows = self.rows(f"SELECT {_ALL} FROM answers WHERE question = ?", (self._hash(question),))
        if not rows:
            return None
        try:
            listed, text = read_row(rows[0])
            result = read_answer(text, question)
        except PlacementError as error:
            with suppress(LibraryTrouble):
                self.remove([question.hash])
            raise LibraryTrouble(
                f"the library of plans {self.path} held an answer that is dropped: {error}; it is searched for again"
            ) from None
        return Known(replace(result, notes=(*result.notes, listed.since)), listed)

    def store(self, question: SearchQuestion, result: Result, model: str) -> bool:
        """Store an answer, and whether it is the one that is stored now. Not stored is what was cancelled, what found
        nothing in its time, and what is no better than the answer that is there: that to a question never gets worse.

        model: its reference, for people.
        """
        from explorer.library.question_key import graph_sha256, graph_text

        if not question.nameable or not worth_keeping(result):
            return False
        try:
            row = row_of(question, result, model)
            graph = question.problem.as_traced.graph
            key = graph_sha256(graph)
            content = None if self.rows(_HAS_GRAPH, (key,)) else packed(graph_text(graph))
        except (ValueError, OSError) as error:
            raise LibraryTrouble(f"the library of plans {self.path} cannot hold this answer: {error}") from None
        with self.writing() as connection:
            before = connection.execute(f"SELECT {_ALL} FROM answers WHERE question = ?", (question.hash,)).fetchone()
            if before is not None and not _replaces(question, result, before):
                return False
            if connection.execute(_HAS_GRAPH, (key,)).fetchone() is None:  # now, too
                connection.execute("INSERT INTO graphs VALUES (?, ?)", (key, content or packed(graph_text(graph))))
            holes = ", ".join("?" * len(row))
            connection.execute(f"INSERT OR REPLACE INTO answers ({_ALL}) VALUES ({holes})", row)
            self._make_room(connection, question.hash)
        return True

    def remove(self, questions: Sequence[str]) -> int:
        """Remove answers by the hashes of their questions; how many there were."""
        with self.writing() as connection:
            count = sum(connection.execute("DELETE FROM answers WHERE question = ?", (q,)).rowcount for q in questions)
            _drop_graphs(connection)
        return count

    def _hash(self, question: SearchQuestion) -> str:
        try:
            return question.hash
        except (ValueError, OSError) as error:  # a NaN, or sources that cannot be read
            raise LibraryTrouble(f"this question cannot be looked up: {error}") from None

    def _make_room(self, connection: sqlite3.Connection, but: str) -> None:
        while _used_bytes(connection) > self._most_bytes:
            (count,) = connection.execute("SELECT count(*) FROM answers").fetchone()
            oldest = connection.execute(
                "SELECT question FROM answers WHERE question <> ? ORDER BY kept_at, question LIMIT ?",
                (but, max(1, count // SHARE)),
            ).fetchall()
            if not oldest:
                return
            connection.executemany("DELETE FROM answers WHERE question = ?", oldest)
            _drop_graphs(connection)

    def _open(self) -> None:
        self._connection, self.writable = opened(self.path)
        self._process = os.getpid()

    def _here(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            self._left.append(self._connection)
            self._open()
        return self._connection

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """What a statement finds."""
        with self._lock:
            return self._tried(lambda: self._here().execute(statement, values).fetchall())

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing."""
        if not self.writable:
            raise LibraryTrouble(f"the library of plans {self.path} can be read, and not written")
        with self._lock:
            connection = self._here()
            self._tried(lambda: connection.execute("BEGIN IMMEDIATE"))
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error | OSError):
                    raise trouble(self.path, error) from None
                raise

    def _tried(self, do: Callable[[], T]) -> T:
        try:
            return do()
        except (sqlite3.Error, OSError) as error:
            raise trouble(self.path, error) from None


def _replaces(question: SearchQuestion, result: Result, before: Sequence[object]) -> bool:
    """Whether it is better than the answer of a row; one that is damaged, or breaks a rule, is worse than any."""
    from explorer.library.answer import read_answer

    try:
        listed, text = read_row(before)
        if question.second is None:
            return is_better(result, listed)
        return is_better(result, listed, (question.takes_s(result), question.takes_s(read_answer(text, question))))
    except PlacementError:
        return True


def _used_bytes(connection: sqlite3.Connection) -> int:
    size, pages, free = (
        connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_size", "page_count", "freelist_count")
    )
    used: int = size * (pages - free)
    return used


def _drop_graphs(connection: sqlite3.Connection) -> None:
    """Those that no answer is about any more."""
    connection.execute("DELETE FROM graphs WHERE sha256 NOT IN (SELECT graph FROM answers)")
