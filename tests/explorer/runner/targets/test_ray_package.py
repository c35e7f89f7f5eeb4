"""A package holds the bundle and our sources, no more, and the same content has the same name."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from explorer.runner.targets import ray_package
from explorer.runner.targets.ray_package import make_package
from solvers.errors import RunError


def test_the_same_content_has_the_same_name() -> None:
    one, again = (make_package("{}", "{}", with_code=True) for _ in range(2))
    other = make_package("{ }", "{}", with_code=True)
    assert one == again
    assert one.name != other.name


def test_without_code_there_is_the_bundle_only() -> None:
    package = make_package("the plan", "the request", with_code=False)
    with zipfile.ZipFile(io.BytesIO(package.data)) as file:
        assert {name: file.read(name) for name in file.namelist()} == {
            "bundle/plan.json": b"the plan",
            "bundle/request.json": b"the request",
        }


def test_the_driver_finds_all_that_is_ours_in_the_package(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(make_package("{}", "{}", with_code=True).data)) as file:
        names = file.namelist()
        file.extractall(tmp_path)
    assert all(name.endswith(".py") or name.startswith("bundle/") for name in names)
    assert {"explorer/runner/rank.py", "solvers/errors.py", "demo_models/gpt.py"} <= set(names)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import explorer.runner.targets.ray_driver;"
        "packages = ('explorer', 'solvers', 'demo_models');"
        "own = [module.__file__ for name, module in sys.modules.items() if name.split('.')[0] in packages];"
        "print(len(own), all(file.startswith(sys.argv[1]) for file in own))"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    count, inside = ran.stdout.split()
    assert int(count) > 10
    assert inside == "True"


def test_a_package_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_package, "MAX_BYTES", 100)
    with pytest.raises(RunError, match="at most 100 are sent to a cluster"):
        make_package("{}", "{}", with_code=False)
