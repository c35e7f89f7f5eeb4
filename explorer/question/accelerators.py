"""The accelerators that settings ask for: as many as wanted, of one kind or of several, with their caps."""

from __future__ import annotations

from dataclasses import replace

from explorer.costs.devices import DEVICES, device_name, device_of
from explorer.question.settings import Settings
from explorer.question.written.closest import closest
from explorer.question.written.device_lists import kinds_text
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.problem.cluster import CPU_KIND, Device

DEFAULT_DEVICES = 4
DEFAULT_KIND = "H100-80GB"


def make_accelerators(workload: Workload, settings: Settings) -> tuple[Device, ...]:
    """The workload's own as far as they are of the kind wanted, then others like them, else new ones.

    Raises InvalidProblem: an unknown kind, or as many kinds or sizes as there are no accelerators.
    """
    own = () if workload.cluster is None else tuple(d for d in workload.cluster.devices if not d.is_cpu)
    kinds = settings.device_kind
    if isinstance(kinds, str):
        kinds = _known_kind(kinds, workload)
    if isinstance(kinds, tuple):
        kinds = tuple(_known_kind(kind, workload) for kind in kinds)
        if settings.devices not in (None, len(kinds)):
            raise InvalidProblem(
                f"--device-kind {kinds_text(kinds)[:80]} is {len(kinds)} accelerators, and --devices is"
                f" {settings.devices}; leave one of them out"
            )
        return with_caps(tuple(_made(own, workload, kind, i) for i, kind in enumerate(kinds)), settings.memory_bytes)
    default = len(own) if workload.cluster is not None else DEFAULT_DEVICES
    count = default if settings.devices is None else settings.devices
    if kinds is None:
        made = own[:count] + tuple(
            _made(own, workload, own[0].kind if own else _stated_kind(workload), i)
            for i in range(len(own), count)
        )  # fmt: skip
    else:
        made = tuple(_made(own, workload, kinds, i) for i in range(count))
    return with_caps(made, settings.memory_bytes)


def with_caps(devices: tuple[Device, ...], sizes: float | tuple[float, ...] | None) -> tuple[Device, ...]:
    """The accelerators with those caps. Raises InvalidProblem unless there is one, or one for each."""
    if sizes is None:
        return devices
    if isinstance(sizes, tuple):
        if len(sizes) != len(devices):
            raise InvalidProblem(
                f"--memory gives {len(sizes)} sizes for {len(devices)} accelerators; give one, or one for each"
            )
        return tuple(replace(device, memory_bytes=size) for device, size in zip(devices, sizes, strict=True))
    return tuple(replace(device, memory_bytes=sizes) for device in devices)


def next_name(first: Device, position: int) -> str:
    """Named like the workload's own: "FPGA 0" gives "FPGA 6"."""
    stem = first.name.rstrip("0123456789")
    return f"{stem or 'device '}{position}"


def _made(own: tuple[Device, ...], workload: Workload, kind: str, position: int) -> Device:
    if position < len(own) and own[position].kind == kind:
        return own[position]
    like = next((device for device in own if device.kind == kind), None)
    if like is not None:
        return replace(like, name=next_name(like, position))
    return device_of(kind, device_name(kind, position))


def _stated_kind(workload: Workload) -> str:
    stated = [] if workload.compute is None else [kind for kind in workload.compute.seconds if kind != CPU_KIND]
    return stated[0] if stated and DEFAULT_KIND not in stated else DEFAULT_KIND


def _known_kind(kind: str, workload: Workload) -> str:
    """The kind as it is called, of a name in any case. Raises InvalidProblem."""
    if kind == CPU_KIND:
        raise InvalidProblem("device kind 'cpu' is not an accelerator; ask for CPUs with --devices 0 --cpus 1")
    known = list(DEVICES) if workload.compute is None else list(workload.compute.seconds)
    if kind not in known:
        for name in known:
            if name.lower() == kind.lower():
                return name
        there = ", ".join(name for name in known if name != CPU_KIND)
        where = "" if workload.compute is None else " with compute times in this workload"
        raise InvalidProblem(f"no device kind {kind!r}{where}; there are: {there}{closest(kind, known)}")
    return kind
