"""Kernels are kept where there is room for them, and where there is none the engine still works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import solvers

SOLVES = """
import sys, solvers
from solvers.kernels.heap_kernel import push_event
print(solvers.__file__)
print(push_event.dispatcher._cache.cache_path)
"""
COMPILES = """
import numpy as np
from solvers.kernels.heap_kernel import push_event
from solvers.kernels.interpreted import is_cached
print(is_cached(push_event))
push_event(np.zeros(4), np.zeros(4, np.int64), 0, 1.0, 1)
"""
POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Before a command of root's: permissions, which root is above, then hold."""


def installed(folder: Path) -> Path:
    """A copy of the engine that nobody may write."""
    copied = folder / "site" / "solvers"
    shutil.copytree(Path(solvers.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (copied, *copied.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return folder / "site"


def run(site: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Import a kernel where nothing can be written but, maybe, ``home``."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    environment |= {"PYTHONPATH": str(site), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*held(), sys.executable, "-P", "-c", SOLVES], capture_output=True, text=True, env=environment
    )


def held() -> tuple[str, ...]:
    return POWERLESS if os.geteuid() == 0 else ()


@pytest.fixture
def site(tmp_path):
    if sys.platform == "win32":
        pytest.skip("folders cannot be made unwritable by their mode")
    if held() and (
        shutil.which("setpriv") is None or subprocess.run([*held(), "true"], capture_output=True).returncode
    ):
        pytest.skip("root ignores permissions, and setpriv cannot hold it to them here")
    made = installed(tmp_path)
    yield made
    for path in (made, *made.rglob("*")):
        path.chmod(0o755)


def test_a_read_only_installation_keeps_kernels_in_the_users_cache(site, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    done = run(site, home)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(str(home))
    assert done.stderr == ""


def test_what_the_first_run_compiles_the_second_finds(tmp_path):
    """Whose folder of kernels was not there before."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    message = [
        subprocess.run([sys.executable, "-c", COMPILES], env=environment, capture_output=True, text=True).stdout.strip()
        for _ in range(2)
    ]
    assert message == ["False", "True"]


def test_without_any_place_to_write_a_warning_is_all(site, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o555)
    done = run(site, home)
    assert done.returncode == 0, done.stderr
    assert "placement-explorer-kernels" in done.stdout.splitlines()[-1]
    assert done.stderr.count("compiled kernels cannot be kept") == 1
    assert not Path(done.stdout.splitlines()[-1]).exists()
