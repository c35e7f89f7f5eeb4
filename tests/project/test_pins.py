"""What constraints.txt pins, and for whom."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.project.pins import ENVIRONMENTS, FILE, ROOT, WITHOUT_HASHES, listed, needed, pinned


def pins(*arguments: str) -> str:
    return subprocess.check_output([ROOT / ".ci/pins", *arguments], text=True)


@pytest.mark.parametrize("environment", ["app", "test"])
def test_what_is_installed_here_is_pinned(environment: str) -> None:
    versions = pinned()
    installed = needed(ENVIRONMENTS[environment][1])
    assert {name for name, _, users in listed() if environment in users} == installed.keys()
    assert {name: version.partition("+")[0] for name, version in installed.items()} == {
        name: versions[name] for name in installed
    }


def test_each_file_has_its_hash_but_pytorch_whose_build_is_the_machines_choice() -> None:
    entries = re.split(r"\n(?=[\w#])", FILE.read_text(encoding="utf-8"))
    without = {one.split("==")[0] for one in entries if "==" in one and "--hash=sha256:" not in one}
    assert without == WITHOUT_HASHES
    assert (
        len(re.findall(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$", FILE.read_text(encoding="utf-8"), re.MULTILINE))
        > 500
    )


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_gets_its_pins(environment: str) -> None:
    wanted = {name for name, _, users in listed() if environment in users}
    assert wanted
    assert {line.split("==")[0] for line in pins("--versions", environment).splitlines()} == wanted
    hashed = re.findall(r"^([\w.-]+)==", pins(environment), re.MULTILINE)
    assert set(hashed) == wanted - WITHOUT_HASHES
    assert len(hashed) == len(set(hashed))


def test_an_environment_that_is_not_there_is_an_error() -> None:
    ran = subprocess.run([ROOT / ".ci/pins", "nowhere"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no environment nowhere" in ran.stderr
