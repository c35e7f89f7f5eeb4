"""profile.json: measured costs, written and read back without loss."""

from __future__ import annotations

from dataclasses import asdict

from explorer.costs.profile import Profile
from solvers.formats.graph_json import read_header
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, file_bytes, parse_json
from solvers.formats.records import keys_of, record_of

FORMAT = "placement-explorer/profile"
VERSION = 1


def write_profile(profile: Profile) -> str:
    """The text of a profile.json. `read_profile` of it gives the profile back."""
    return dump_json(profile_object(profile))


def profile_object(profile: Profile) -> dict[str, object]:
    """The same as a JSON value."""
    fields = asdict(profile)
    if profile.engine is None:  # as files were before there was one
        del fields["engine"]
    return {"format": FORMAT, "version": VERSION, **fields}


def load_profile(path: str) -> Profile:
    """The profile in a file. Raises InvalidProblem, in one line that names the file."""
    return read_profile(file_bytes(path), path)


def read_profile(data: bytes | str | object, where: str = "profile.json") -> Profile:
    """The profile of a JSON text, or of its parsed value. Raises InvalidProblem."""
    value = parse_json(data, where) if isinstance(data, bytes | str) else data
    whole = Field(value, f"{where}:")
    parts = read_header(whole, FORMAT, VERSION, *keys_of(Profile))
    return whole.located(lambda: record_of(Profile, parts))
