"""A plan whose costs are of other hardware than this machine's is recognised ahead of a run."""

from __future__ import annotations

from dataclasses import replace

from explorer.jobs import run_kinds
from explorer.jobs.run_kinds import elsewhere
from explorer.runner.targets.target_file import LocalSetup, RaySetup
from tests.explorer.view.small import chain_problem, even_plan

HERE = LocalSetup("local")


def of_kind(kind):
    """The chain planned for two devices of a kind."""
    problem = chain_problem(2)
    devices = tuple(replace(device, kind=kind) for device in problem.cluster.devices)
    table = replace(problem.compute, seconds={kind: next(iter(problem.compute.seconds.values()))})
    return replace(problem, cluster=replace(problem.cluster, devices=devices), compute=table)


def test_a_gpu_that_is_not_here_is_elsewhere(monkeypatch):
    monkeypatch.setattr(run_kinds, "_gpus", list)
    problem = of_kind("H100-80GB")
    shown = elsewhere(problem, even_plan(problem), HERE)
    assert shown.startswith("This plan is for 2 H100-80GB; local has no GPU (")


def test_the_gpu_that_is_here_is_not(monkeypatch):
    problem = of_kind("H100-80GB")
    monkeypatch.setattr(run_kinds, "_gpus", lambda: ["NVIDIA H100 80GB HBM3"])
    assert elsewhere(problem, even_plan(problem), HERE) == ""
    monkeypatch.setattr(run_kinds, "_gpus", lambda: ["NVIDIA L4"])
    assert elsewhere(problem, even_plan(problem), HERE).endswith("local has NVIDIA L4.")


def test_costs_that_name_no_hardware_are_believed_and_of_other_targets_nothing_is_known(monkeypatch):
    monkeypatch.setattr(run_kinds, "_gpus", list)
    assert elsewhere(chain_problem(2), even_plan(chain_problem(2)), HERE) == ""
    problem = of_kind("H100-80GB")
    assert elsewhere(problem, even_plan(problem), RaySetup("cluster", "http://10.0.0.1:8265")) == ""
