"""A kernel that was compiled with an older version of one that it calls is compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from solvers.kernels.kernel_cache import RECORD, drop_stale

OUTER = """
from numba import njit
from drawer.inner_kernel import inner

@njit(cache=True)
def outer():
    return inner() + 1
"""
INNER = """
from numba import njit

@njit(cache=True)
def inner():
    return {}
"""
CALLED = """
import os
from pathlib import Path
from solvers.kernels.kernel_cache import drop_stale
asked = os.environ.get("NUMBA_CACHE_DIR")
drop_stale(Path("drawer"), [Path(asked)] if asked else [])
from drawer.outer_kernel import outer
print(outer())
"""


def drawer(folder: Path) -> Path:
    package = folder / "drawer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "outer_kernel.py").write_text(OUTER)
    (package / "other_kernel.py").write_text(INNER.format(3))
    return package


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_change_of_a_kernel_reaches_those_that_call_it(tmp_path: Path, elsewhere: bool) -> None:
    package, cache = drawer(tmp_path), tmp_path / "kept"
    cache.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # one of a second ago would be taken for today's
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
    if elsewhere:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    for value in (1, 7):
        (package / "inner_kernel.py").write_text(INNER.format(value))
        done = subprocess.run(
            [sys.executable, "-c", CALLED], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{value + 1}\n"
    assert any(cache.rglob("*.nbi")) is elsewhere


def test_only_those_that_call_a_kernel_that_changed_are_deleted(tmp_path: Path) -> None:
    package = drawer(tmp_path)
    (package / "inner_kernel.py").write_text(INNER.format(1))
    (package / "__pycache__").mkdir()
    compiled = {
        name: package / "__pycache__" / f"{name}_kernel.{name}-4.py311.nbi" for name in ("outer", "inner", "other")
    }

    def left() -> set[str]:
        drop_stale(package, [])
        return {name for name, path in compiled.items() if path.exists()}

    assert left() == set()
    for path in compiled.values():
        path.touch()
    assert left() == {"outer", "inner", "other"}
    (package / "inner_kernel.py").write_text(INNER.format(2))
    assert left() == {"other"}


def test_what_nobody_wrote_down_is_deleted_and_a_spoiled_record_is_no_error(tmp_path: Path) -> None:
    package = drawer(tmp_path)
    (package / "__pycache__").mkdir()
    drop_stale(package, [])
    (package / "__pycache__" / RECORD).write_text("[1")
    path = package / "__pycache__" / "other_kernel.inner-4.py311.nbi"
    path.touch()
    drop_stale(package, [])
    assert not path.exists()
