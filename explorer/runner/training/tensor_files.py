"""The files of a checkpoint's tensors, as torch.distributed.checkpoint writes and reads them: a failure to write is
said as the system says it, and nothing is unpickled but what describes tensors."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata

from solvers.errors import RunError


class Writer(FileSystemWriter):
    """Writes tensors in files that say why they cannot be written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fs = _Files()


class _Files(FileSystem):
    """Files whose failure is the system's: torch's own, after a write that failed, is of a place in the file."""

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        with super().create_stream(path, mode) as stream:
            failures: list[OSError] = []
            write = stream.write

            def noting(data: Any) -> int:
                try:
                    return int(write(data))
                except OSError as error:
                    failures.append(error)
                    raise

            stream.write = noting
            try:
                yield stream
            except Exception:
                if failures:
                    raise failures[0] from None
                raise


class Reader(FileSystemReader):
    """Reads the list of tensors with only those classes that describe tensors."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with self.fs.create_stream(self._get_metadata_path(kwargs.get("rank")), "rb") as file:
            found = _Describing(io.BytesIO(file.read())).load()
        if not isinstance(found, Metadata):
            raise RunError(f"checkpoint {self.path}: its list of tensors is a {type(found).__name__}")
        for name, kind in found.state_dict_metadata.items():
            if not isinstance(kind, TensorStorageMetadata):  # torch would unpickle it
                raise RunError(f"checkpoint {self.path}: {name} is no tensor")
        found.storage_meta = found.storage_meta or StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found


class _Describing(pickle.Unpickler):
    """Knows the classes of torch.distributed.checkpoint's own list, and no others."""

    KNOWN = frozenset(
        {("torch", "Size"), ("torch", "device"), ("torch.serialization", "_get_layout"), ("pathlib", "PosixPath"),
         ("torch.distributed.checkpoint.filesystem", "_StorageInfo")}
        | {("torch.distributed.checkpoint.metadata", name) for name in (
            "Metadata", "MetadataIndex", "ChunkStorageMetadata", "TensorStorageMetadata", "BytesStorageMetadata",
            "TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING")}
        | {("torch", str(value).removeprefix("torch.")) for value in vars(torch).values()
           if isinstance(value, torch.dtype)}
    )  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.KNOWN:
            raise RunError(f"a checkpoint's list of tensors names {module}.{name}, which describes none")
        return super().find_class(module, name)
