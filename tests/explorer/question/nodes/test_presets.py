"""Clusters by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.question.cluster_file import load_cluster
from explorer.question.nodes.presets import OFFERED, PRESETS, preset_cluster, preset_devices, preset_title
from solvers.errors import InvalidProblem


@pytest.mark.parametrize("name", [*PRESETS, *OFFERED])
def test_each_is_a_cluster_with_all_its_links(name: str) -> None:
    machines = preset_cluster(name)
    assert machines is not None
    assert len(machines.accelerators) == len(machines)
    assert (len(machines), max(device.memory_bytes for device in machines.devices)) == preset_devices(name)
    assert len(machines.links) == len(machines) * (len(machines) - 1)
    assert preset_title(name)


def test_several_nodes_are_joined_by_the_network_of_the_preset() -> None:
    machines = preset_cluster("2xdgx-h100")
    assert machines is not None
    inside, between = machines.link(0, 1), machines.link(0, 8)
    assert inside is not None
    assert between is not None
    assert (inside.bandwidth_bytes_per_s, between.bandwidth_bytes_per_s) == (450e9, 50e9)
    assert [d.node for d in machines.devices] == [0] * 8 + [1] * 8


@pytest.mark.parametrize("name", ["", "dgx", "0dgx-h100", "dgx-h100x2", "DGX-H100", "xdgx-h100", "../dgx-h100"])
def test_what_is_no_name_is_none(name: str) -> None:
    assert preset_cluster(name) is None


@pytest.mark.parametrize("name", ["0xdgx-h100", "2049xdgx-h100", "9999xlaptop"])
def test_too_many_nodes_are_refused(name: str) -> None:
    with pytest.raises(InvalidProblem, match="expected 1 to 2048 nodes"):
        preset_cluster(name)


def test_a_typing_error_names_what_was_meant() -> None:
    with pytest.raises(InvalidProblem, match="neither a file nor a cluster's name; did you mean 'dgx-h100'"):
        load_cluster("dgx-h1000")


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("laptop").write_text("nodes: [{devices: 2xL4-24GB}]")
    assert [d.kind for d in load_cluster("laptop").devices] == ["L4-24GB"] * 2
