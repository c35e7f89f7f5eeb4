"""Writing a file for good: all of it or nothing, and if nothing, which file, while doing what, and why.

The one place that writes what outlives the program; `tests/explorer/test_writers.py` holds everybody to it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from typing import NamedTuple

from solvers.errors import PlacementError, one_line

Path = str | os.PathLike[str]
PART = re.compile(r"\.[0-9a-f]{8}\.part$")
"""How the name of a file ends that is being written. One that is left was being written when the power went."""
MAX_LINKS = 40
"""Links followed to a file, as in Linux."""
_DESCRIPTORS = re.compile(r"(?:/proc/(\d+)(?:/task/\d+)?|/dev)/fd")
_NAME = 50
"""Characters of a name kept in that of its part: 255 bytes are all that names may have."""
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""What file systems say that have nothing to sync."""


class NotWritten(PlacementError, OSError):
    """A file could not be written. Its message is one line that names the file, as the user did."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(number, message)
        self.message = one_line(message)

    def __str__(self) -> str:
        return self.message


def write_file(path: Path, content: str | bytes, doing: str, *, mode: int | None = None) -> None:
    """Make ``content`` what is in the file ``path``: beside it, synced, then renamed; a reader never finds half.

    A link is followed, and its target replaced. A file that is there keeps its mode, and its owner where
    that is allowed; ``mode`` is that of a new one (by default what the umask leaves). What is no file (/dev/null,
    a FIFO, a descriptor such as /dev/stdout) is written to as it is. doing: the phase, for the message: "saving
    the plan". Raises NotWritten, and what was there is there still; BrokenPipeError if a reader left.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    state = ""
    try:
        target = _resolved(path)
        if not target.is_file:
            _write_into(target.path, data)
            return
        state = "; no file was made" if target.status is None else "; the file there is as it was"
        _replace(target.path, target.status, data, mode)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = _reason(path, error)
        raise NotWritten(
            error.errno or 0, f"could not write {os.fspath(path)} while {doing}: {reason}{state}"
        ) from None


def part_beside(path: Path) -> str:
    """A new name for what is to be ``path`` when it is whole."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder, f"{name[:_NAME]}.{secrets.token_hex(4)}.part")


def put_in_place(part: Path, path: Path) -> None:
    """Make the file or folder ``part`` what is at ``path``, where a file or an empty folder may be. Raises OSError."""
    os.replace(part, path)
    with contextlib.suppress(OSError):  # it is whole; only a loss of power now could bring the old one back
        _sync_folder(os.path.dirname(os.path.abspath(path)))


def why_not_writable(path: Path) -> str:
    """Why `write_file` would not write there as things are, in words; "" if nothing is known against it."""
    if not os.fspath(path):
        return "expected a file name, found nothing"
    try:
        target = _resolved(path)
        if target.status is not None and stat.S_ISDIR(target.status.st_mode):
            return f"{path}: is a folder, expected a file"
        if target.status is not None and not os.access(target.path, os.W_OK):
            return f"{path}: cannot be written; choose another file"
        if target.is_file:
            folder = os.path.dirname(target.path)
            if not os.path.isdir(folder):
                return f"{path}: there is no folder {folder!r}"
            if not os.access(folder, os.W_OK | os.X_OK):
                return f"{path}: the folder {folder!r} cannot be written in, and a file is written beside the old one"
    except OSError as error:
        return f"{path}: {os_words(error)}"
    return ""


class _Place(NamedTuple):
    """Where a path leads, through links. found: what is there, if anything is. is_file: whether it is, or would be, a
    file of its own, that another can take the place of."""

    path: str
    status: os.stat_result | None
    is_file: bool


def _resolved(path: Path) -> _Place:
    target = os.path.abspath(path)
    for _ in range(MAX_LINKS):
        target = os.path.join(os.path.realpath(os.path.dirname(target)), os.path.basename(target))
        if _DESCRIPTORS.fullmatch(os.path.dirname(target)):  # of a file, even: others write to it as well
            return _Place(target, os.stat(target), False)
        if not os.path.islink(target):
            break
        target = os.path.join(os.path.dirname(target), os.readlink(target))
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return _Place(target, None, True)
    return _Place(target, status, stat.S_ISREG(status.st_mode))


def _write_into(target: str, data: bytes) -> None:
    folder, name = os.path.split(target)
    held = _DESCRIPTORS.fullmatch(folder)
    if held and int(held[1] or os.getpid()) == os.getpid():  # its own place in the file, not the beginning once more
        into = os.dup(int(name))
    else:
        into = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
    with os.fdopen(into, "wb") as file:
        file.write(data)


def _replace(target: str, status: os.stat_result | None, data: bytes, mode: int | None) -> None:
    if status is not None and not os.access(target, os.W_OK):  # a rename would not ask
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    part = part_beside(target)
    into = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else mode)
    try:
        with os.fdopen(into, "wb") as file:
            if status is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(into, status.st_uid, status.st_gid)
                os.fchmod(into, stat.S_IMODE(status.st_mode))
            file.write(data)
            file.flush()
            _sync(into)
        put_in_place(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _sync(into: int) -> None:
    try:
        os.fsync(into)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _sync_folder(folder: str) -> None:
    into = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(into)
    finally:
        os.close(into)


def _reason(path: Path, error: OSError) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    if isinstance(error, FileNotFoundError) and not os.path.isdir(folder):
        return f"there is no folder {folder!r}"
    return os_words(error)


def os_words(error: OSError) -> str:
    """What the system says, as the end of a sentence: "no space left on device"."""
    words = error.strerror or str(error)
    return words[:1].lower() + words[1:]
