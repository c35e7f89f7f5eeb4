"""A .pt2 whose weights are a hole in the file: as long as those of a large model, and written at once."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path


def with_weights(path: Path, data: bytes, nbytes: int) -> Path:
    """Write the archive ``data`` to ``path`` with one weight of ``nbytes`` more, before everything else."""
    with path.open("wb") as file, zipfile.ZipFile(file, "w") as new, zipfile.ZipFile(io.BytesIO(data)) as old:
        weight = zipfile.ZipInfo("archive/data/weights/weight_large")
        weight.file_size = weight.compress_size = nbytes
        weight.CRC = weight.header_offset = 0
        file.write(weight.FileHeader(zip64=nbytes >= 2**31))
        file.seek(nbytes, 1)
        new.start_dir = file.tell()
        new.filelist.append(weight)
        for entry in old.infolist():
            new.writestr(entry, old.read(entry))
    return path
