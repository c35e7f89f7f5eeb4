"""The catalogue of devices."""

from __future__ import annotations

import pytest

from explorer.costs import DEVICES


def test_the_catalogue_has_these_kinds_under_their_own_names() -> None:
    expected = [
        "V100-16GB",
        "V100-32GB",
        "A100-40GB",
        "A100-80GB",
        "H100-80GB",
        "H200-141GB",
        "B200-180GB",
        "GB200-186GB",
        "L4-24GB",
        "L40S-48GB",
        "A10G-24GB",
        "RTX4090-24GB",
        "MI300X-192GB",
        "RTX4060M-8GB",
        "cpu",
        "cpu-core",
    ]
    assert list(DEVICES) == expected
    assert all(device.name == name for name, device in DEVICES.items())


@pytest.mark.parametrize("kind", list(DEVICES))
def test_every_kind_states_all_rates(kind: str) -> None:
    device = DEVICES[kind]
    assert set(device.peak_flops_per_s) == {"fp16", "bf16", "tf32", "fp32"}
    assert min(*device.peak_flops_per_s.values(), device.memory_bytes, device.memory_bytes_per_s, device.launch_s) > 0
    assert device.peak_flops_per_s["fp16"] >= device.peak_flops_per_s["fp32"]


def test_memory_is_what_the_name_says() -> None:
    for name, device in DEVICES.items():
        if not name.startswith("cpu"):
            assert f"{device.memory_bytes / 1e9:.0f}GB" == name.split("-")[1]
