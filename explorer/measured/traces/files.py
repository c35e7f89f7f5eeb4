"""The traces of all ranks of a run: the files of a folder or of a .zip, or one file. They are data from outside."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from explorer.costs.times.trace_events import GZIP, Trace, trace_of, unpacked
from explorer.measured.traces.memory import MemoryPeak, is_timeline, memory_peak
from explorer.runner.bundles.outcome import MAX_RANKS
from solvers.errors import InvalidProblem
from solvers.formats.json_text import MAX_BYTES, parse_json

ENDINGS = (".json", ".json.gz")
PT2 = "models/model.json"
"""What every .pt2 holds."""
MAX_FILES = 2 * MAX_RANKS
"""A trace and a memory timeline of every rank."""
_NUMBER = re.compile(r"\d{1,7}")


@dataclass(frozen=True, slots=True)
class RankFile:
    """What one file holds: the trace or the memory of a rank. rank: as the trace says, else the last number in the
    file's name, else None."""

    name: str
    rank: int | None
    held: Trace | MemoryPeak


def is_archive(path: str) -> bool:
    """Whether a file is a .zip of nothing but .json and .json.gz, and no .pt2."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
    except (OSError, zipfile.BadZipFile):
        return False
    if any(name.endswith(PT2) for name in names):
        return False
    return bool(names) and all(name.lower().endswith(ENDINGS) for name in names)


def is_gzip(head: bytes) -> bool:
    return head.startswith(GZIP)


def rank_files(path: str) -> Iterator[RankFile]:
    """Every trace and memory timeline of a folder, of a .zip, or of one file, one at a time, by name. Raises
    InvalidProblem, in one line that names the file."""
    if os.path.isdir(path):
        yield from _of_folder(path)
    elif is_archive(path):
        yield from _of_archive(path)
    else:
        yield _read(path, os.path.basename(path))


def traces(path: str) -> Iterator[Trace]:
    """The traces alone. Raises InvalidProblem, also where there is none."""
    any_trace = False
    for file in rank_files(path):
        if isinstance(file.held, Trace):
            any_trace = True
            yield file.held
    if not any_trace:
        raise InvalidProblem(f"{path}: holds no trace, only memory timelines")


def _of_folder(path: str) -> Iterator[RankFile]:
    names = sorted(name for name in os.listdir(path) if name.lower().endswith(ENDINGS))
    _check_count(len(names), path)
    for name in names:
        yield _read(os.path.join(path, name), name)


def _of_archive(path: str) -> Iterator[RankFile]:
    with zipfile.ZipFile(path) as archive:
        infos = sorted((info for info in archive.infolist() if not info.is_dir()), key=lambda info: info.filename)
        _check_count(len(infos), path)
        for info in infos:
            where = f"{path}: {os.path.basename(info.filename)[:200]}"
            try:
                with archive.open(info) as member:
                    data = member.read(MAX_BYTES + 1)
            except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
                raise InvalidProblem(f"{where}: cannot be unpacked: {str(error)[:200]}") from None
            yield _held(data, where, os.path.basename(info.filename))


def _check_count(files: int, path: str) -> None:
    if not files:
        raise InvalidProblem(f"{path}: holds no trace; write one for every rank with export_chrome_trace (.json.gz)")
    if files > MAX_FILES:
        raise InvalidProblem(f"{path}: {files:,} files; at most {MAX_FILES:,} are read")


def _read(path: str, name: str) -> RankFile:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return _held(data, path, name)


def _held(data: bytes, where: str, name: str) -> RankFile:
    value = parse_json(unpacked(data, where), where)
    numbers = _NUMBER.findall(re.split(r"\.", name)[0]) or _NUMBER.findall(name)
    named = int(numbers[-1]) if numbers else None
    if is_timeline(value):
        return RankFile(name, named, memory_peak(value, where))
    trace = trace_of(value, where)
    return RankFile(name, named if trace.rank is None else trace.rank, trace)
