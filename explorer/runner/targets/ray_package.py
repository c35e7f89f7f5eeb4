"""What is sent to a Ray cluster: a zip with the bundle and, unless they are installed there, our own packages."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from solvers.errors import RunError

BUNDLE = "bundle"
"""The folder of the package that plan.json and request.json are in."""
PACKAGES = ("solvers", "explorer", "demo_models")
LEFT_OUT = (("explorer", "web"), ("explorer", "cli"))
"""Nothing that runs on a cluster needs the page and the command."""
MAX_BYTES = 100 * 2**20
_LONG_AGO = (2000, 1, 1, 0, 0, 0)
"""The same content is to give the same file, and so the same name, whenever it is made."""


@dataclass(frozen=True, slots=True)
class Package:
    """name: as Ray wants it, of the content; data: a zip file."""

    name: str
    data: bytes


def make_package(plan_text: str, request_text: str, *, with_code: bool) -> Package:
    """Raises RunError if it is larger than clusters take."""
    bundle = [(f"{BUNDLE}/plan.json", plan_text.encode()), (f"{BUNDLE}/request.json", request_text.encode())]
    return package_of([*bundle, *(code() if with_code else ())], "the plan makes")


def package_of(entries: Iterable[tuple[str, bytes]], what: str) -> Package:
    """Files by their names in it. Raises RunError if it is larger than clusters take, which ``what`` begins to say."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in entries:
            _put(file, name, data)
    data = buffer.getvalue()
    if len(data) > MAX_BYTES:
        raise RunError(f"{what} a package of {len(data):,} bytes; at most {MAX_BYTES:,} are sent to a cluster")
    return Package(f"_ray_pkg_{hashlib.sha256(data).hexdigest()[:32]}.zip", data)


def code() -> Iterator[tuple[str, bytes]]:
    """Our own modules."""
    for name, path in sources():
        yield name, path.read_bytes()


def sources() -> Iterator[tuple[str, Path]]:
    """(name in the package, file) of our own modules, sorted: sources only, no caches and no data."""
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            root = Path(place)
            for path in sorted(root.rglob("*.py")):
                parts = (package, *path.relative_to(root).parts)
                if not any(parts[: len(left_out)] == left_out for left_out in LEFT_OUT):
                    yield "/".join(parts), path


def _put(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    file.writestr(entry, data)
