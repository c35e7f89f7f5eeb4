"""A file is written whole or not at all, and if not, the one line says which file, while doing what, and why."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer import files
from explorer.files import PART, NotWritten, why_not_writable, write_file
from solvers.errors import PlacementError

OLD = "what was there before\n" * 3
DOING = "saving the plan"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(OLD)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_and_bytes_are_written_as_they_are(old: Path) -> None:
    write_file(old, "größer\n", DOING)
    assert old.read_bytes() == "größer\n".encode()
    write_file(str(old), b"\x00\r\n", DOING)
    assert old.read_bytes() == b"\x00\r\n"
    assert names(old.parent) == ["plan.json"]


def test_a_file_keeps_its_mode_and_a_new_one_has_what_the_umask_leaves(old: Path) -> None:
    old.chmod(0o604)
    write_file(old, "new", DOING)
    assert stat.S_IMODE(old.stat().st_mode) == 0o604
    before = os.umask(0o027)
    try:
        write_file(old.with_name("other"), "new", DOING)
        write_file(old.with_name("run.sh"), "#!/bin/sh\n", DOING, mode=0o700)
    finally:
        os.umask(before)
    assert stat.S_IMODE(old.with_name("other").stat().st_mode) == 0o640
    assert stat.S_IMODE(old.with_name("run.sh").stat().st_mode) == 0o700


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "plan.json"
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("far/plan.json")
    for content in ("made", "replaced"):  # the first time there is no target yet
        write_file(tmp_path / "one", content, DOING)
        assert target.read_text() == content
    assert (tmp_path / "one").is_symlink()
    assert names(tmp_path / "far") == ["plan.json"]


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(NotWritten, match="a while saving the plan: too many levels of symbolic links"):
        write_file(tmp_path / "a", "", DOING)


def test_a_reader_sees_the_old_or_the_new(old: Path) -> None:
    with old.open() as reader:
        write_file(old, "new", DOING)
        assert reader.read() == OLD
    assert old.read_text() == "new"


def test_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    write_file("/dev/null", "gone", DOING)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "through", DOING)
    reader.join()
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "link"])
def test_standard_output_takes_it_in_its_turn(tmp_path: Path, name: str) -> None:
    """Also where it goes to a file, which a rename would take away from the others that write there."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = (
        f"from explorer.files import write_file; print('1', flush=True); write_file({name!r}, '2\\n', ''); print('3')"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(command, cwd=tmp_path, env=environ, stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "1\n2\n3\n"
    piped = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, check=True)
    assert piped.stdout == b"1\n2\n3\n"


def test_a_reader_that_left_is_no_failure_of_the_disk(tmp_path: Path) -> None:
    source, target = os.pipe()
    os.close(source)
    try:
        with pytest.raises(BrokenPipeError):
            write_file(f"/dev/fd/{target}", "nobody reads", DOING)
    finally:
        os.close(target)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "no space left on device"),
        (errno.EDQUOT, "disk quota exceeded"),
        (errno.EROFS, "read-only file system"),
        (errno.EIO, "input/output error"),
    ],
)
@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_what_was_there_survives(
    old: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, reason: str
) -> None:
    def fails(*args: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, call, fails)
    with pytest.raises(NotWritten) as caught:
        write_file(old, "new", DOING)
    with pytest.raises(NotWritten) as fresh:
        write_file(old.with_name("fresh"), "new", DOING)
    monkeypatch.undo()
    expected = f"could not write {old} while saving the plan: {reason}; the file there is as it was"
    assert str(caught.value) == expected
    assert caught.value.errno == number
    assert isinstance(caught.value, PlacementError)
    assert str(fresh.value).endswith(f"fresh while saving the plan: {reason}; no file was made")
    assert old.read_text() == OLD
    assert names(old.parent) == ["plan.json"]


def test_an_interrupt_leaves_nothing_behind(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(old, "new", DOING)
    assert old.read_text() == OLD
    assert names(old.parent) == ["plan.json"]


def test_a_file_system_without_sync_is_fine(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(files.os, "fsync", cannot)
    write_file(old, "new", DOING)
    assert old.read_text() == "new"


def test_a_full_device_is_reported() -> None:
    with pytest.raises(NotWritten) as caught:
        write_file("/dev/full", "x", DOING)
    assert str(caught.value) == "could not write /dev/full while saving the plan: no space left on device"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full(small_disk: Path) -> None:
    path = small_disk / "plan.json"
    write_file(path, OLD, DOING)
    with pytest.raises(NotWritten, match="no space left on device; the file there is as it was"):
        write_file(path, "x" * 100_000, DOING)
    assert path.read_text() == OLD
    assert names(small_disk) == ["plan.json"]


def test_places_where_nothing_can_be_written(old: Path, tmp_path: Path) -> None:
    with pytest.raises(NotWritten, match=f"there is no folder '{tmp_path}/no'; no file was made"):
        write_file(tmp_path / "no" / "plan.json", "", DOING)
    with pytest.raises(NotWritten, match="is a directory"):
        write_file(tmp_path, "", DOING)
    assert why_not_writable("") == "expected a file name, found nothing"
    assert why_not_writable(tmp_path) == f"{tmp_path}: is a folder, expected a file"
    assert "there is no folder" in why_not_writable(tmp_path / "no" / "plan.json")
    assert "not a directory" in why_not_writable(old / "plan.json")
    for fine in (old, tmp_path / "new", "/dev/null", "/dev/stdout"):
        assert why_not_writable(fine) == ""


def test_what_may_not_be_written_is_not_replaced(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for somebody who is not root: a file that is read-only, then a folder."""
    monkeypatch.setattr(files.os, "access", lambda place, _: place != str(old))
    assert why_not_writable(old) == f"{old}: cannot be written; choose another file"
    with pytest.raises(NotWritten, match="permission denied; the file there is as it was"):
        write_file(old, "new", DOING)
    monkeypatch.setattr(files.os, "access", lambda place, _: place != str(old.parent))
    assert f"the folder '{old.parent}' cannot be written in" in why_not_writable(old)
    assert old.read_text() == OLD


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_closed(old: Path) -> None:
    old.parent.chmod(0o500)
    try:
        with pytest.raises(NotWritten, match="permission denied; the file there is as it was"):
            write_file(old, "new", DOING)
    finally:
        old.parent.chmod(0o700)
    assert old.read_text() == OLD


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    name = "ä" * 125 + ".json"
    write_file(tmp_path / name, "x", DOING)
    assert names(tmp_path) == [name]


def test_the_name_of_a_part_tells_that_it_is_one(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(files, "_sync", lambda _: seen.extend(names(old.parent)))
    write_file(old, "new", DOING)
    assert [name for name in seen if PART.search(name)] == [name for name in seen if name != "plan.json"]
    assert len(seen) == 2
