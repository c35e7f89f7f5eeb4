"""The text of the graph inside a ``.pt2`` archive: a zip, read with limits. Nothing in it is ever run.

A ``.pt2`` also holds pickles (weights, sample inputs). They are not opened: unpickling runs code of
the file's author, and the graph, shapes and module names are all in one JSON document.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import zipfile
import zlib
from typing import BinaryIO

from solvers.errors import InvalidProblem

MAX_ARCHIVE_BYTES = 64 * 2**30
"""A file on disk may hold the weights of a large model; only its directory and one entry are read."""
MAX_UPLOAD_BYTES = 512 * 2**20
MAX_ENTRIES = 200_000
"""One entry a weight; the largest public models have some ten thousand."""
MAX_DIRECTORY_BYTES = 64 * 2**20
"""Of the zip's list of entries, which is read before they can be counted."""
MAX_JSON_BYTES = 64 * 2**20
"""Inflated. A graph of 9,000 nodes takes about 20 MB."""
MAX_RATIO = 200
"""Inflated over stored; JSON of exports deflates by 10 to 30."""

DAMAGED = (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, zlib.error, lzma.LZMAError)
"""What `zipfile` raises for an archive that is none, or whose entries do not inflate."""
HOW = "save it with torch.export.save(torch.export.export(model, inputs), 'model.pt2')"


def read_document(source: str | os.PathLike[str] | bytes) -> tuple[str, dict[str, object]]:
    """(name of the file, the exported program as JSON). Raises InvalidProblem in one line."""
    name = "the upload" if isinstance(source, bytes) else os.path.basename(os.fspath(source))
    size = len(source) if isinstance(source, bytes) else _size_of(source, name)
    limit = MAX_UPLOAD_BYTES if isinstance(source, bytes) else MAX_ARCHIVE_BYTES
    if size > limit:
        raise InvalidProblem(
            f"{name}: {size:,} bytes is more than the limit of {limit:,}; export it on the meta device"
        )
    try:
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            _check_directory(file, name)
            with zipfile.ZipFile(file) as archive:
                text = _model_json(archive, name)
    except (*DAMAGED, RuntimeError, ValueError) as error:
        if isinstance(error, InvalidProblem):
            raise
        raise InvalidProblem(f"{name} is not a .pt2 archive (a zip is expected); {HOW}") from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidProblem(f"{name}: the model's JSON cannot be read: {type(error).__name__}") from error
    if not isinstance(document, dict):
        raise InvalidProblem(f"{name}: the model's JSON must be an object, found {type(document).__name__}")
    return name, document


def _size_of(path: str | os.PathLike[str], name: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise InvalidProblem(f"{name}: cannot be opened: {error.strerror}") from error


def _check_directory(file: BinaryIO, name: str) -> None:
    # The function that ZipFile itself trusts, so that a crafted file cannot tell the two different sizes.
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end is not None and end[zipfile._ECD_SIZE] > MAX_DIRECTORY_BYTES:  # type: ignore[attr-defined]
        raise InvalidProblem(f"{name}: the archive's directory is larger than {MAX_DIRECTORY_BYTES:,} bytes")


def _model_json(archive: zipfile.ZipFile, name: str) -> bytes:
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise InvalidProblem(f"{name}: {len(entries):,} entries is more than the limit of {MAX_ENTRIES:,}")
    models = [entry for entry in entries if _is_model(entry.filename)]
    if not models:
        hint = " (a pickle of weights or of a module, not an exported graph)" if _has_pickle(entries) else ""
        raise InvalidProblem(f"{name}: no models/*.json in the archive{hint}; {HOW}")
    if len(models) > 1:
        raise InvalidProblem(f"{name}: holds {len(models)} models; expected one")
    entry = models[0]
    if entry.file_size > MAX_JSON_BYTES or entry.file_size > MAX_RATIO * max(entry.compress_size, 1024):
        raise InvalidProblem(f"{name}: {entry.filename} inflates to {entry.file_size:,} bytes, more than the limit")
    with archive.open(entry) as stream:
        # The size in the directory is a claim: read no more than the limit whatever it says.
        text = stream.read(MAX_JSON_BYTES + 1)
    if len(text) > MAX_JSON_BYTES:
        raise InvalidProblem(f"{name}: {entry.filename} inflates to more than the limit of {MAX_JSON_BYTES:,} bytes")
    return text


def _is_model(path: str) -> bool:
    """ "archive/models/model.json"; before torch 2.8, "serialized_exported_program.json"."""
    parts = path.split("/")
    if parts[-1] == "serialized_exported_program.json":
        return True
    return len(parts) >= 2 and parts[-2] == "models" and parts[-1].endswith(".json")


def _has_pickle(entries: list[zipfile.ZipInfo]) -> bool:
    return any(entry.filename.endswith(("data.pkl", ".pkl")) for entry in entries)
