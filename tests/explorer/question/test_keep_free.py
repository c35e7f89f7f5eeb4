"""Memory that is left free for what no plan counts."""

from __future__ import annotations

import math

import pytest

from explorer.question.clusters import make_cluster
from explorer.question.questions import Question
from explorer.question.settings import Settings
from explorer.view.session import parse, to_dict
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Device, uniform_cluster
from tests.explorer.view.small import chain_workload
from tests.explorer.view.test_session import CHOICES

GIB = 2.0**30


def caps(**settings) -> list[float]:
    cluster = make_cluster(chain_workload(), Settings(device_kind="H100-80GB", devices=2, **settings))
    return [device.memory_bytes for device in cluster.devices]


def test_each_accelerator_has_so_much_less_and_a_cpu_has_not():
    whole = caps(cpus=1)
    assert caps(cpus=1, keep_free_bytes=4 * GIB) == [whole[0] - 4 * GIB, whole[1] - 4 * GIB, whole[2]]
    assert caps(memory_bytes=16 * GIB, keep_free_bytes=4 * GIB) == [12 * GIB] * 2


def test_a_cluster_that_is_given_whole_has_less_too_and_no_cap_stays_none():
    cluster = uniform_cluster([Device("a", "k", 8 * GIB), Device("b", "k")], 1e9, 0.0)
    made = make_cluster(chain_workload(), Settings(cluster=cluster, keep_free_bytes=GIB))
    assert [device.memory_bytes for device in made.devices] == [7 * GIB, math.inf]


@pytest.mark.parametrize(("nbytes", "words"), [(16 * GIB, "leaves nothing of"), (-1.0, "at least 0"), (math.nan, "at")])
def test_what_leaves_nothing_or_is_no_size_is_refused(nbytes, words):
    with pytest.raises(InvalidProblem, match=words):
        caps(memory_bytes=16 * GIB, keep_free_bytes=nbytes)


def test_python_and_links_say_it():
    assert Question(keep_free="1.5GiB").keep_free_bytes == 1.5 * GIB
    session = parse({"keep_free": str(2 * GIB)}, CHOICES)
    assert session.settings.keep_free_bytes == 2 * GIB
    assert to_dict(session)["keep_free"] == 2 * GIB
    assert "keep_free" not in to_dict(parse({}, CHOICES))
