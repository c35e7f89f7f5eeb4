"""How the whole suite is run."""

from __future__ import annotations

import compileall
import gc
import os
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["PLACEMENT_EXPLORER_LIBRARY"] = "off"  # nobody's own answers, and every test searches; some name a file

settings.register_profile("busy machines too", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("busy machines too")  # how fast an input is drawn says nothing about the code

SUITES = ("not benchmark and not slow", "slow", "not benchmark")
"""The default suite, what takes longest, and both."""
MOST = 4
"""Processes; each needs up to 2 GB, the browser and what its tests start included."""
SOURCES = ("solvers", "explorer", "demo_models", "tests")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Share the files of a whole suite out among processes: ``pytest``, ``pytest -m slow``; with ``-n 0`` in one.

    Anything less (named files, ``-s``, ``--pdb``, another ``-m``) runs in one process unless ``-n`` says otherwise.
    """
    option = config.option
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and option.markexpr in SUITES
    watched = option.usepdb or option.capture == "no" or option.collectonly
    if not everything or watched or hasattr(config, "workerinput"):
        return
    count = min(MOST, os.cpu_count() or 1)
    if count > 1 and config.pluginmanager.hasplugin("xdist") and option.numprocesses is None and option.dist == "no":
        option.numprocesses = count
        option.dist = "loadfile"
        option.loadscopereorder = False  # which would begin with the most tests; the first files are the longest


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode where Python is set to keep none (PYTHONDONTWRITEBYTECODE, as in containers): hundreds of
    processes that tests start would each compile all they import, a second of it."""
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        for folder in SOURCES:
            compileall.compile_dir(Path(__file__).parents[1] / folder, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: twelve thousand tests and what they import stay, and every look would go
    through all of it, later ones too. What pytest makes of the tests' files is kept for the next time; what is written
    later, in tests, is not: two texts of one size and second look alike to Python."""
    gc.disable()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = before
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of what is driven in a browser, and of what has many cases.

    The former is tried twice before it counts as failed: a busy machine may keep it from answering in time. The summary
    counts the second tries. Of a test marked ``first(n)`` the cases after the n-th are slow.
    """
    cases: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if first := item.get_closest_marker("first"):
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > first.args[0]:
                item.add_marker(pytest.mark.slow)
