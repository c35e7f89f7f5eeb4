"""A user's cluster comes back as it was written, and anything else is refused in one line."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.costs.devices import DEVICES
from explorer.question.cluster_file import parse_cluster
from solvers.errors import InvalidProblem
from solvers.formats.cluster_json import cluster_json
from solvers.formats.json_text import dump_json
from solvers.problem.cluster import CPU_KIND, Cluster, Device, Link

SMALL: dict[str, Any] = {
    "devices": [
        {"name": "GPU 0", "kind": "V100-16GB", "memory_bytes": 8e9},
        {"name": "CPU", "kind": "cpu", "node": 0},
    ],
    "links": [
        {"src": 0, "dst": 1, "bandwidth_bytes_per_s": 12e9, "latency_s": 1e-5, "resource": "PCIe"},
        {"src": 1, "dst": 0, "bandwidth_bytes_per_s": 12e9, "resource": "PCIe"},
    ],
}
POSITIVE = st.floats(1.0, 1e18, allow_subnormal=False)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Devices of any kinds and caps, some of them linked."""
    kinds = sorted(
        draw(st.lists(st.sampled_from([*DEVICES, "mine"]), min_size=1, max_size=5)), key=lambda kind: kind == CPU_KIND
    )
    devices = tuple(
        Device(
            f"{i} {draw(st.text(max_size=3))}",
            kind,
            draw(POSITIVE | st.just(math.inf)),
            draw(POSITIVE | st.just(math.inf)),
            draw(POSITIVE | st.just(math.inf)),
            draw(st.sampled_from((1, None))) if kind == CPU_KIND else 1,
            draw(st.integers(0, 3)),
        )
        for i, kind in enumerate(kinds)
    )
    pairs = [(src, dst) for src in range(len(kinds)) for dst in range(len(kinds)) if src != dst]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    resources = st.sampled_from(("", "wire", "host 0 root"))
    links = tuple(Link(s, d, draw(POSITIVE), draw(st.floats(0, 10)), draw(resources)) for s, d in chosen)
    return Cluster(devices, links)


@given(clusters())
def test_a_cluster_survives_its_file(cluster: Cluster) -> None:
    assert parse_cluster(dump_json(cluster_json(cluster)), "c.json") == cluster


def test_what_a_device_leaves_out_is_as_the_catalogue_has_it() -> None:
    gpu, cpu = parse_cluster(json.dumps(SMALL), "c.json").devices
    assert gpu.memory_bytes == 8e9
    assert gpu.memory_bytes_per_s == DEVICES["V100-16GB"].memory_bytes_per_s
    assert cpu.memory_bytes == DEVICES["cpu"].memory_bytes
    uncapped = copy.deepcopy(SMALL)
    uncapped["devices"][0]["memory_bytes"] = None
    assert parse_cluster(json.dumps(uncapped), "c.json").devices[0].memory_bytes == math.inf


def test_links_that_name_one_resource_share_it() -> None:
    assert {link.resource for link in parse_cluster(json.dumps(SMALL), "c.json").links} == {"PCIe"}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("devices",), [], "c.json: the cluster has no devices"),
        (("devices",), {}, "c.json: devices: expected a list, found an object of 0"),
        (("devices", 0), "V100", r"c.json: devices\[0\]: expected an object, found 'V100'"),
        (("devices", 0, "colour"), "red", r"c.json: devices\[0\].colour: unknown field; known are name, kind, memory"),
        (("devices", 0, "name"), 3, r"devices\[0\].name: expected a text"),
        (("devices", 0, "kind"), ["V100-16GB"], r"devices\[0\].kind: expected a text"),
        (("devices", 0, "memory_bytes"), 0, "device GPU 0: memory must be more than 0 bytes"),
        (("devices", 0, "memory_bytes"), -8, r"devices\[0\].memory_bytes: expected a finite number >= 0"),
        (("devices", 0, "memory_bytes"), "8GB", r"devices\[0\].memory_bytes: expected a finite number"),
        (
            ("devices", 0, "memory_bytes"),
            10**400,
            r"c.json: the number 10+\.\.\. is too large; every number must be finite",
        ),
        (("devices", 0, "memory_bytes"), True, r"devices\[0\].memory_bytes: expected a finite number"),
        (("devices", 0, "concurrency"), 2, r"devices\[0\].concurrency: expected an integer from 1 to 1"),
        (("devices", 0, "concurrency"), None, r"devices\[0\].concurrency: only a CPU runs any number"),
        (("devices", 0, "node"), -1, r"devices\[0\].node: expected an integer"),
        (("devices", 0, "kind"), "cpu", None),
        (("devices", 1, "kind"), "L4-24GB", None),
        (("devices", 1, "name"), "GPU 0", r"devices\[1\].name: 'GPU 0' is the name of devices\[0\], too"),
        (("links", 0, "src"), 2, "link 2 -> 1: no such device"),
        (("links", 0, "src"), 0.5, r"links\[0\].src: expected an integer"),
        (("links", 0, "dst"), 0, "link 0 -> 0: a device needs no link to itself"),
        (("links", 1), SMALL["links"][0], "link 0 -> 1: there are two of them; keep one"),
        (("links", 0, "bandwidth_bytes_per_s"), 0, "link 0 -> 1: bandwidth must be more than 0"),
        (("links", 0, "latency_s"), -1, r"links\[0\].latency_s: expected a finite number >= 0"),
        (("links", 0, "resource"), "device 1", "the resource 'device 1' has the name of a device's own"),
        (("links", 0, "resource"), None, r"links\[0\].resource: expected a text"),
        (("links",), [SMALL["links"][0]] * 3, "there are two of them"),
        (("version",), 1, "c.json: version: expected an integer from 2 to 2, found 1"),
    ],
)
def test_one_change_is_reported_with_its_place(
    place: tuple[str | int, ...], value: object, message: str | None
) -> None:
    changed = copy.deepcopy(SMALL)
    at: Any = changed
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    if message is None:
        parse_cluster(json.dumps(changed), "c.json")
        return
    with pytest.raises(InvalidProblem, match=message) as caught:
        parse_cluster(json.dumps(changed), "c.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the JSON ends too early"),
        ('{"devices": [', "the JSON ends too early"),
        ('{"devices": [{"name": "a", "kind": "cpu", "memory_bytes": NaN}]}', "NaN is not JSON"),
        ('{"devices": [{"name": "a", "kind": "cpu", "memory_bytes": 1e999}]}', "is too large"),
        ('{"devices": [], "devices": []}', "occurs twice"),
        ("[" * 100 + "]" * 100, "nested deeper"),
        ("[]", "expected an object, found a list of 0"),
        ("null", "expected an object, found null"),
        ("\ufeff{}", "c.json: devices: missing"),
    ],
)
def test_text_that_is_no_cluster(text: str, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        parse_cluster(text.encode(), "c.json")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
    | st.sampled_from((1e308, -1, 10**30, "cpu", "V100-16GB", "device 0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> object:
    """SMALL with some of its values, at any depth, replaced, left out or doubled."""
    value = copy.deepcopy(SMALL)
    for _ in range(draw(st.integers(1, 3))):
        at: Any = value
        while True:
            keys = sorted(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], (dict, list)) and draw(st.booleans()):
                at = at[key]
                continue
            how = draw(st.sampled_from(("replace", "drop", "double")))
            if how == "drop":
                del at[key]
            elif how == "double" and isinstance(at, list):
                at.append(at[key])
            else:
                at[key] = draw(VALUES)
            break
    return value


@given(damaged() | VALUES)
def test_whatever_stands_there_is_a_cluster_or_one_line(value: object) -> None:
    cluster, message = None, "c.json"
    try:
        cluster = parse_cluster(json.dumps(value), "c.json")
    except InvalidProblem as error:
        message = str(error)
    assert message.startswith("c.json")
    assert "\n" not in message
    assert len(message) < 600
    if cluster is not None:
        assert parse_cluster(dump_json(cluster_json(cluster)), "c.json") == cluster
