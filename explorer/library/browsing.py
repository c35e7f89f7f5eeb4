"""What the owner of a library does with it beside asking: look through it, take plans out, and make room.

Never for whoever visits a page: there an answer is found by its exact question only.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from explorer.library.place import LibraryTrouble
from explorer.library.rows import COLUMNS, Listed, listed, read_row, unpacked
from solvers.errors import InvalidProblem, PlacementError

if TYPE_CHECKING:
    from explorer.library.answer import StoredAnswer
    from explorer.library.library import Library

LEAST_DIGITS = 4
"""Of a hash that is cut short."""
_LISTED = ", ".join((*COLUMNS, "length(answer)"))


class Size(NamedTuple):
    """answers: how many. other: how many of them other code gave, which are never found. nbytes: of the file with what
    is beside it while it is open."""

    answers: int
    other: int
    graphs: int
    nbytes: int


def browse(library: Library) -> list[Listed]:
    """All answers, the newest first. Those whose columns are damaged are left out. Raises LibraryTrouble."""
    answers = []
    for row in library.rows(f"SELECT {_LISTED} FROM answers ORDER BY kept_at DESC, question"):
        with suppress(LibraryTrouble):
            answers.append(listed(row[:-1], row[-1] if isinstance(row[-1], int) else 0))
    return answers


def named(library: Library, given: str) -> str:
    """The hash that begins like this. Raises InvalidProblem, in one line, if none or several do."""
    if len(given) < LEAST_DIGITS or set(given) - set("0123456789abcdef"):
        raise InvalidProblem(
            f"{given[:80]!r} is no hash of a question: at least {LEAST_DIGITS} of its digits, 0-9 and a-f, as"
            " `placement-explorer plans` shows them"
        )
    hashes = [str(row[0]) for row in library.rows(
        "SELECT question FROM answers WHERE substr(question, 1, ?) = ? LIMIT 3", (len(given), given)
    )]  # fmt: skip
    if len(hashes) != 1:
        problem = f"more than one question begins with {given}" if hashes else f"no question begins with {given[:80]}"
        raise InvalidProblem(
            f"{problem} in the library of plans {library.path} (`placement-explorer plans` lists them)"
        )
    return hashes[0]


def taken(library: Library, question: str) -> tuple[Listed, StoredAnswer]:
    """An answer with its problem, verified. Raises LibraryTrouble, also for an answer that is damaged."""
    from explorer.library.answer import read_apart  # kernels are slow to import

    rows = library.rows(
        f"SELECT {', '.join(COLUMNS)}, graphs.content, answer, checksum FROM answers"
        " JOIN graphs ON graphs.sha256 = answers.graph WHERE question = ?",
        (question,),
    )
    if not rows:
        raise LibraryTrouble(f"the library of plans {library.path} holds no answer to {question[:12]}")
    *columns, graph, answer, checksum = rows[0]
    try:
        one, text = read_row((*columns, answer, checksum))
        if not isinstance(graph, bytes):
            raise LibraryTrouble("its graph is damaged")
        return one, read_apart(text, unpacked(graph))
    except PlacementError as error:
        raise LibraryTrouble(
            f"the library of plans {library.path}: the answer {question[:12]} cannot be shown: {error}"
            " (`placement-explorer plans remove` removes it)"
        ) from None


def prune(
    library: Library, older_than: timedelta | None = None, other_code: bool = False, now: datetime | None = None
) -> int:
    """Remove what was kept longer ago, or what code gave that is not that of today; how many answers. Raises
    LibraryTrouble."""
    before = "" if older_than is None else ((now or datetime.now(UTC)) - older_than).strftime("%Y-%m-%dT%H:%M:%SZ")

    def goes(one: Listed) -> bool:
        return one.kept_at < before or (other_code and not one.is_current)

    return library.remove([one.question for one in browse(library) if goes(one)])


def compact(library: Library) -> None:
    """Give the disk back what removed answers took, as far as it can be had now."""
    with suppress(LibraryTrouble):
        library.rows("VACUUM")
        library.rows("PRAGMA wal_checkpoint(TRUNCATE)")


def size(library: Library) -> Size:
    """Raises LibraryTrouble."""
    listed = browse(library)
    ((graphs,),) = library.rows("SELECT count(*) FROM graphs")
    beside = (library.path.with_name(library.path.name + end) for end in ("", "-wal", "-shm"))
    nbytes = sum(path.stat().st_size for path in beside if path.exists())
    return Size(len(listed), sum(not one.is_current for one in listed), int(str(graphs)), nbytes)
