"""What was measured here, kept by name: profiles of models and operator times, in the user's data folder.

The files are those of `profile_json` and `library_json`, which state hardware, versions, dates and spreads themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from explorer.costs.profile import Profile
from explorer.costs.profile_json import load_profile, write_profile
from explorer.costs.times.keeping import earlier_times, save_times
from explorer.costs.times.library import Library
from explorer.costs.times.library_json import load_library
from explorer.files import write_file
from solvers.errors import InvalidProblem

PROFILE, TIMES = "profile", "operator times"
ENDS = {PROFILE: ".profile.json", TIMES: ".times.json"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
NAMED = 10
"""Most names in a message."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One file of the store. of: the models measured. processes: how many measured at once. spread: how far the median
    is over the lower quartile, the median over operators. trouble: why the file says nothing, "" if it does."""

    name: str
    kind: str
    path: Path
    of: tuple[str, ...] = ()
    hardware: str = ""
    threads: int = 0
    torch: str = ""
    python: str = ""
    dtypes: tuple[str, ...] = ()
    processes: int = 0
    date: str = ""
    spread: float | None = None
    trouble: str = ""


def store_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """costs in $PLACEMENT_EXPLORER_HOME, else in placement-explorer in $XDG_DATA_HOME (~/.local/share). It may not
    exist."""
    if home := environ.get("PLACEMENT_EXPLORER_HOME"):
        return Path(home).expanduser().absolute() / "costs"
    base = environ.get("XDG_DATA_HOME")
    return (Path(base).absolute() if base else Path.home() / ".local" / "share") / "placement-explorer" / "costs"


def is_name(given: str) -> bool:
    """Whether something could be saved under this; else it is the path of a file."""
    return _NAME.fullmatch(given) is not None and not given.endswith(".json")


def place_of(name: str, kind: str) -> Path:
    """Where it is, or would be. Raises InvalidProblem for what is no name."""
    if not is_name(name):
        raise InvalidProblem(
            f"{name[:80]!r} is no name to save under: up to 64 letters, digits and . _ + -, the first a letter or"
            " digit, and not the name of a .json file (-o FILE and --write-times FILE write files)"
        )
    return store_folder() / f"{name}{ENDS[kind]}"


def path_of(given: str, kind: str) -> str:
    """The path of a file, or of what is saved under a name. Raises InvalidProblem, in one line with the names that
    there are, for a name that nothing is saved under."""
    if os.path.exists(given) or not is_name(given):
        return given
    place = place_of(given, kind)
    if place.is_file():
        return str(place)
    there = names(kind)
    examples = ", ".join(there[:NAMED]) + (f" and {len(there) - NAMED} more" if len(there) > NAMED else "")
    are = f"saved are {examples}" if there else "none are saved"
    raise InvalidProblem(
        f"{kind} {given!r}: there is no such file, and nothing of that name is saved; {are}"
        " (`placement-explorer calibrate MODEL --save NAME`)"
    )


def names(kind: str) -> list[str]:
    """What is saved of a kind, without a look into the files."""
    return [path.name.removesuffix(ENDS[kind]) for path in _files(kind)]


def save(name: str, profile: Profile | None, library: Library) -> tuple[Path, ...]:
    """Writes both, and returns where. A profile takes the place of the one there; operator times are added to those
    there. Raises InvalidProblem where these are of other hardware, and NotWritten."""
    times = place_of(name, TIMES)
    before = earlier_times(str(times))
    try:
        times.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidProblem(f"{times.parent}: {reason}, so nothing can be saved there") from None
    save_times(str(times), library, before)
    if profile is None:
        return (times,)
    place = place_of(name, PROFILE)
    write_file(place, write_profile(profile), "saving the profile")
    return (place, times)


def listed() -> list[Saved]:
    """All that is saved, by name."""
    saved = [_profile(path) for path in _files(PROFILE)] + [_times(path) for path in _files(TIMES)]
    return sorted(saved, key=lambda one: (one.name, one.kind))


def _files(kind: str) -> list[Path]:
    return sorted(path for path in store_folder().glob(f"*{ENDS[kind]}") if path.is_file())


def _profile(path: Path) -> Saved:
    name = path.name.removesuffix(ENDS[PROFILE])
    try:
        profile = load_profile(str(path))
    except InvalidProblem as error:
        return Saved(name, PROFILE, path, trouble=str(error))
    spreads = [spread for times in profile.operators for spread in times.spread]
    return Saved(
        name, PROFILE, path, (profile.reference,), " + ".join(dict.fromkeys(profile.hardware)), profile.threads,
        profile.torch, profile.python, (profile.dtype,), profile.ranks, profile.date,
        median(spreads) if spreads else None,
    )  # fmt: skip


def _times(path: Path) -> Saved:
    name = path.name.removesuffix(ENDS[TIMES])
    try:
        times = load_library(str(path))
    except InvalidProblem as error:
        return Saved(name, TIMES, path, trouble=str(error))
    return Saved(
        name, TIMES, path, tuple(dict.fromkeys(source.reference for source in times.sources)), times.hardware,
        times.threads, times.torch, times.python, times.dtypes, max(source.processes for source in times.sources),
        max(source.date for source in times.sources), median(time.spread for time in times.times),
    )  # fmt: skip
