"""The SQLite file of the library: opened, made where there is none, and refused in one line where it is another."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

from explorer.library.place import LibraryTrouble

APPLICATION = 0x504C4558
""""PLEX", in the header of the file, so that `file` and we know whose it is."""
VERSION = 1
"""Of the layout."""
BUSY_S = 5.0
"""Waited for another process that writes."""
MAX_BLOB = 512 * 2**20
"""Of anything in the file, bytes."""

GRAPHS = """CREATE TABLE graphs (
    sha256 TEXT PRIMARY KEY NOT NULL,
    content BLOB NOT NULL
)"""
"""Operator graphs, zlib of their JSON, each once for all answers about it."""
ANSWERS = """CREATE TABLE answers (
    question TEXT PRIMARY KEY NOT NULL,
    graph TEXT NOT NULL REFERENCES graphs (sha256),
    model TEXT NOT NULL,
    planner TEXT NOT NULL,
    effort TEXT NOT NULL,
    objective TEXT NOT NULL,
    devices INTEGER NOT NULL,
    status TEXT NOT NULL,
    stop_reason TEXT NOT NULL,
    objective_s REAL,
    bound_s REAL,
    seconds REAL NOT NULL,
    kept_at TEXT NOT NULL,
    versions TEXT NOT NULL,
    answer BLOB NOT NULL,
    checksum BLOB NOT NULL
)"""
"""question: `Asked.hash`. objective_s and bound_s: NULL is infinity. kept_at: UTC, ISO 8601. answer: zlib of the JSON
of `explorer.library.answer`. checksum: sha256 of all before it, for what disks do to files."""
BY_GRAPH = "CREATE INDEX answers_by_graph ON answers (graph)"
LAYOUT = (GRAPHS, ANSWERS, BY_GRAPH)


def opened(path: Path) -> tuple[sqlite3.Connection, bool]:
    """A connection that any thread may use, one at a time, and whether it can write. Raises LibraryTrouble."""
    try:
        writable = _prepared(path)
        connection = _connected(path, writable)
    except (sqlite3.Error, OSError) as error:
        raise trouble(path, error) from None
    try:
        _checked(path, connection, writable)
    except (sqlite3.Error, OSError) as error:
        connection.close()
        raise trouble(path, error) from None
    except LibraryTrouble:
        connection.close()
        raise
    return connection, writable


def trouble(path: Path, error: Exception) -> LibraryTrouble:
    """What an error of SQLite or of the system means for the library, in one line."""
    if isinstance(error, OSError):
        return LibraryTrouble(f"the library of plans {path} cannot be used: {(error.strerror or str(error)).lower()}")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return _other(path)
    if code == sqlite3.SQLITE_CORRUPT:
        return LibraryTrouble(f"the library of plans {path} is damaged ({error}); move it away, and a new one is begun")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LibraryTrouble(f"the library of plans {path}: another process has been writing for {BUSY_S:g} s")
    return LibraryTrouble(f"the library of plans {path} cannot be used: {error}")


def _other(path: Path) -> LibraryTrouble:
    return LibraryTrouble(f"{path} is no library of plans but another file; --library FILE says which file is")


def _prepared(path: Path) -> bool:
    """Make folder and file where there are none, readable by the user alone; whether they can be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise _other(path)
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)


def _connected(path: Path, writable: bool) -> sqlite3.Connection:
    how = "mode=rw"
    if not writable:  # nothing can be made beside it, so what was left beside it must be empty
        log = path.with_name(f"{path.name}-wal")
        how = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.as_uri()}?{how}", uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BLOB)
    return connection


def _checked(path: Path, connection: sqlite3.Connection, writable: bool) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("BEGIN")  # what it says of itself is of one moment, also while another process makes it
    try:
        is_library = _is_ours(path, connection)
    finally:
        connection.execute("ROLLBACK")
    if not is_library:
        if not writable:
            raise _other(path)
        _make(path, connection)
    if writable:
        with suppress(sqlite3.OperationalError):  # another process is at it, or the file system cannot
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")


def _is_ours(path: Path, connection: sqlite3.Connection) -> bool:
    """False for a file with nothing in it. Raises LibraryTrouble for another one, or one of another version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    statements = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 100").fetchall()
    if (application, version, statements) == (0, 0, []):
        return False
    if application != APPLICATION:
        raise _other(path)
    if version > VERSION:
        raise LibraryTrouble(
            f"the library of plans {path} was written by a newer version of placement-explorer (layout {version}; this"
            f" one knows {VERSION}); upgrade, or give --library another file"
        )
    if {sql for (sql,) in statements} != set(LAYOUT):
        raise _other(path)
    return True


def _make(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ours(path, connection):  # nobody was faster
            for statement in LAYOUT:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
