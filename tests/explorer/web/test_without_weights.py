"""What the page sends of a .pt2: the script that leaves its weights out, run by Node on files."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import torch

from demo_models import MODELS
from explorer.jobs.requests import UPLOAD_BYTES
from explorer.measured.traces.files import is_archive
from explorer.tracing import load_pt2
from solvers.errors import InvalidProblem
from tests.explorer.tracing.files.pt2_bytes import with_weights
from tests.explorer.tracing.test_pt2 import document_of, exported
from tests.explorer.web.scripts import ASSETS

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")

LEAVE_OUT = """
const fs = require("node:fs");
globalThis.window = {};
require(process.argv[1]);
const handle = fs.openSync(process.argv[2]);
const size = fs.fstatSync(handle).size;
let read = 0;
const slice = (from, to) => {
  const bytes = Buffer.alloc(Math.max(0, Math.min(to, size) - from));
  read += fs.readSync(handle, bytes, 0, bytes.length, from);
  return new Blob([bytes]);
};
window.explorer.withoutWeights({ size, slice }).then(async (made) => {
  if (made) fs.writeFileSync(process.argv[3], Buffer.from(await made.body.arrayBuffer()));
  console.log(JSON.stringify({ left: made && made.left, read }));
});
"""
"""With a file of its own: that of Node 20 has its size modulo 4 GiB."""
TAIL_BYTES = 2 * 65536
"""Most that is read beside the directory and what is sent: where the directory's end may be, and headers."""


def left_out(path: Path) -> tuple[int, bytes] | None:
    """(bytes of the entries that were left out, the small zip); None where the file is to be sent as it is."""
    small = path.with_suffix(".small")
    command = ["node", "-e", LEAVE_OUT, str(ASSETS / "files" / "pt2.js"), str(path), str(small)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    made = json.loads(ran.stdout)
    if made["left"] is None:
        return None
    assert made["read"] <= 2 * small.stat().st_size + TAIL_BYTES
    return made["left"], small.read_bytes()


@pytest.fixture(scope="module")
def gpt() -> bytes:
    module, inputs = MODELS["gpt-small"].build()
    return exported(module, inputs)


def is_same(small: bytes, whole: bytes) -> bool:
    """Whether both give the same graph."""
    a, b = load_pt2(small), load_pt2(whole)
    return (a.graph, a.parameters, a.notes, a.training) == (b.graph, b.parameters, b.notes, b.training)


@pytest.mark.parametrize("nbytes", [0, 200 * 2**20, 5 * 2**30])
def test_the_graph_is_in_what_is_sent_and_the_weights_are_not(gpt: bytes, tmp_path: Path, nbytes: int) -> None:
    path = with_weights(tmp_path / "m.pt2", gpt, nbytes)
    made = left_out(path)
    assert made is not None
    left, small = made
    with zipfile.ZipFile(io.BytesIO(small)) as sent, zipfile.ZipFile(path) as whole:
        assert sent.testzip() is None
        remain = [name for name in whole.namelist() if "/data/" not in name]
        assert sent.namelist() == remain
        assert [sent.read(name) for name in remain] == [whole.read(name) for name in remain]
        assert left == sum(entry.compress_size for entry in whole.infolist() if "/data/" in entry.filename) >= nbytes
    assert len(small) + left <= path.stat().st_size
    assert is_same(small, gpt)


def test_numbers_of_zip64_deflated_entries_and_a_comment_are_read(
    gpt: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.pt2"
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)  # sizes, offsets and the end from there on
    with zipfile.ZipFile(io.BytesIO(gpt)) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        new.comment = b"PK\x05\x06" + b"an end that is none" * 10
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert b"PK\x06\x06" in path.read_bytes()
    made = left_out(path)
    assert made is not None
    assert b"PK\x06\x06" not in made[1]
    assert is_same(made[1], gpt)


def test_pickles_of_an_archive_of_before_torch_2_8_are_left_out(gpt: bytes, tmp_path: Path) -> None:
    path, pickles = tmp_path / "m.pt2", ("serialized_state_dict.pt", "serialized_constants.pt")
    graph = json.dumps(document_of(gpt)).encode()
    entries = {"serialized_exported_program.json": graph, **dict.fromkeys(pickles, b"\x80" * 5000), "version": b"8.4"}
    path.write_bytes(zip_of(entries))
    made = left_out(path)
    assert made is not None
    assert made[0] == 10_000
    path.write_bytes(made[1])
    assert not is_archive(str(path)), "what remains is taken for traces"
    assert is_same(made[1], gpt)


def test_what_is_refused_whole_is_refused_without_its_weights(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(300, 300).state_dict(), tmp_path / "weights.pt2")
    made = left_out(tmp_path / "weights.pt2")
    assert made is not None
    assert made[0] > 300 * 300 * 4
    with pytest.raises(InvalidProblem, match="pickle of weights"):
        load_pt2(made[1])


def test_what_is_no_zip_or_a_damaged_one_is_left_as_it_is(gpt: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    directory = gpt.rindex(b"PK\x01\x02")
    plain = zip_of({"m/models/model.json": b"{}", "m/data/weights/w": b"w"})
    pieces = {
        "empty": b"",
        "text": b"no zip at all" * 10,
        "cut": gpt[:-30],
        "no list": gpt[:directory] + b"PK\x00\x00" + gpt[directory + 4 :],
        "size of the list": plain[:-10] + b"\xff\xff\xff\x7f" + plain[-6:],
        "no weights": zip_of({"m/models/model.json": b"{}"}),
        "many": zip_of({f"m/{i}": b"" for i in range(1001)} | {"m/data/weights/w": b"w"}),
    }
    for what, data in pieces.items():
        path.write_bytes(data)
        assert left_out(path) is None, what


def zip_of(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.slow
def test_an_export_with_random_weights_of_more_than_the_limit_is_small_without_them(tmp_path: Path) -> None:
    module = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(3)))
    whole = exported(module, (torch.randn(2, 4096),))
    assert len(whole) > UPLOAD_BYTES
    (tmp_path / "m.pt2").write_bytes(whole)
    made = left_out(tmp_path / "m.pt2")
    assert made is not None
    assert made[0] >= 3 * 4096 * 4097 * 4
    assert len(made[1]) < 100_000
    assert is_same(made[1], whole)
