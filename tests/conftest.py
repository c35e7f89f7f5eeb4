"""How the whole suite is run."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("busy machines too", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("busy machines too")  # how fast an input is drawn says nothing about the code

MOST = 4
"""Processes; each needs up to 2 GB, the browser and what its tests start included."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Share the files of the whole suite out among processes: ``pytest`` alone, or with ``-n 0`` in one.

    Anything less (named files, ``-s``, ``--pdb``, another ``-m``) runs in one process unless ``-n`` says otherwise.
    """
    option = config.option
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and option.markexpr == "not benchmark"
    watched = option.usepdb or option.capture == "no" or option.collectonly
    if not everything or watched or hasattr(config, "workerinput"):
        return
    count = min(MOST, os.cpu_count() or 1)
    if count > 1 and config.pluginmanager.hasplugin("xdist") and option.numprocesses is None and option.dist == "no":
        option.numprocesses = count
        option.dist = "loadfile"
        option.loadscopereorder = False  # which would begin with the most tests; the first files are the longest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is driven in a browser is tried twice before it counts as failed: a busy machine may keep it from
    answering in time. The summary counts the second tries."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))
