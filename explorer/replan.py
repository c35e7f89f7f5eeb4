"""The same question again, with costs that were measured."""

from __future__ import annotations

from dataclasses import replace

from explorer.costs.measured import compute_table, kind_of, label, links_between
from explorer.runner.profile import Profile
from solvers.errors import InvalidProblem
from solvers.problem import Problem


def replanned(problem: Problem, profile: Profile) -> Problem:
    """``problem`` with the profile's compute times and links; objective, batches, caps, pins and all else
    stay. Rank i of the profile is device i, further devices are like them.

    Raises InvalidProblem if the profile is of another graph, or the problem has CPUs beside its
    accelerators, which were not measured.
    """
    if problem.cluster.cpus and problem.cluster.accelerators:
        raise InvalidProblem("a profile has no times of CPUs beside accelerators; plan without them (--cpus 0)")
    kind = kind_of(profile)
    devices = tuple(replace(device, kind=kind, concurrency=1) for device in problem.cluster.devices)
    links = links_between([device.node for device in devices], profile)
    return replace(
        problem,
        cluster=replace(problem.cluster, devices=devices, links=links or problem.cluster.links),
        compute=compute_table(problem.graph, profile, problem.optimizer),
        transfer_s=None if links else problem.transfer_s,
        costs_from=label(profile),
    )
