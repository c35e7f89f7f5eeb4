"""What a pull request runs is what the README and .ci/run run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent.parent
JOBS = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]


def test_workflows_call_targets_that_the_makefile_has() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(VENV)", ".venv")
    targets = set(re.findall(r"^(\S+):", makefile, re.MULTILINE))
    called = {
        line.split()[1]
        for job in JOBS.values()
        for step in job["steps"]
        if (line := step.get("run", "")).startswith("make ")
    }
    assert called
    assert called <= targets


def test_what_keeps_main_good_is_what_a_pull_request_runs() -> None:
    here = set(re.findall(r"^make (\S+)$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE))
    there = {step["run"].split()[1] for step in JOBS["linux"]["steps"] if step.get("run", "").startswith("make ")}
    assert here == there


def test_every_python_that_is_tested_is_one_that_the_package_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = JOBS["linux"]["strategy"]["matrix"]["python"]
    assert project["requires-python"] == f">={pythons[0]}"
    stated = {
        c.rpartition(" ")[2] for c in project["classifiers"] if c.startswith("Programming Language :: Python :: 3.")
    }
    assert stated == set(pythons)
