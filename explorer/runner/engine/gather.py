"""What all ranks measured becomes one outcome, on rank 0."""

from __future__ import annotations

import platform
import socket
from collections import defaultdict
from dataclasses import asdict
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import torch
import torch.distributed as dist

from explorer.runner.bundles.outcome import (
    Agreement,
    Environment,
    MeasuredAction,
    MeasuredExchange,
    MeasuredMessage,
    Outcome,
    RunStatus,
)
from explorer.runner.bundles.progress import report
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.machine import Machine
from explorer.runner.engine.measure import Measured
from explorer.runner.scripts.script import Do


def gather(
    machine: Machine,
    request: RunRequest,
    measured: Measured,
    agreement: Agreement | None,
    noise: list[float],
    pinned: bool,
    operators_s: dict[str, float],
    notes: tuple[str, ...] = (),
) -> Outcome | None:
    """The outcome on rank 0, None elsewhere. Every rank calls it."""
    report("gathering", waits=True)
    record: dict[str, Any] = {
        **asdict(measured),
        "host": socket.gethostname(),
        "device": device_name(machine.device),
        "noise": max(noise, default=0.0),
        "pinned": pinned,
        "operators": operators_s,
    }
    every: list[Any] | None = [None] * machine.processes if machine.process == 0 else None
    dist.gather_object(record, every)
    if every is None:
        return None
    members = machine.members.members
    reports = every[::members]  # of each group the first member: all take the same steps
    losses = [sum(ends) for ends in zip(*(each["losses"] for each in reports), strict=True)]
    broken = _not_finite(reports, request.warmup)
    return Outcome(
        status=RunStatus.FAILED if broken and machine.script.training else RunStatus.DONE,
        reason=broken if machine.script.training else "",
        environment=Environment(
            hosts=tuple(each["host"] for each in every),
            devices=tuple(each["device"] for each in every),
            backend=dist.get_backend(),
            torch=str(torch.__version__),
            python=platform.python_version(),
            threads=request.threads,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            pinned=all(each["pinned"] for each in every),
        ),
        iterations_s=tuple(max(lengths) for lengths in zip(*(each["lengths_s"] for each in every), strict=True)),
        actions=_actions(reports),
        messages=_messages(machine, reports),
        exchanges=_exchanges(reports),
        segments=tuple(segment.stages for segment in machine.script.segments),
        rank_devices=machine.script.devices,
        peak_bytes=tuple(
            max(each["peak_bytes"] for each in every[first : first + members])
            for first in range(0, len(every), members)
        ),
        losses=tuple(losses) if machine.has_loss else (),
        noise=max(each["noise"] for each in every),
        agreement=agreement,
        operators_s=_operators(every),
        notes=(*machine.notes, *notes, *([broken] if broken and not machine.script.training else ())),
    )


def _not_finite(reports: list[Any], warmup: int) -> str:
    """Which loss was the first that is no finite number, in words; "" if all are."""
    first = min(((*each["not_finite"], rank) for rank, each in enumerate(reports) if each["not_finite"]), default=None)
    if first is None:
        return ""
    iteration, micro_batch, loss, rank = first
    which = f"{iteration + 1} of the warm-up" if iteration < warmup else f"{iteration + 1 - warmup}"
    return (
        f"the loss is no finite number: {loss}, first in iteration {which}, micro-batch {micro_batch}, on rank {rank}"
    )


def _operators(reports: list[Any]) -> dict[str, float]:
    """The mean over ranks that hold an operator."""
    times: dict[str, list[float]] = defaultdict(list)
    for each in reports:
        for name, seconds in each["operators"].items():
            times[name].append(seconds)
    return {name: fmean(seconds) for name, seconds in times.items()}


def _actions(reports: list[Any]) -> tuple[MeasuredAction, ...]:
    actions = []
    for rank, each in enumerate(reports):
        for iteration, record in enumerate(each["records"]):
            before = 0.0
            for action, requested, began, ended in record["actions"]:
                wait_s, engine_s = max(0.0, began - requested), max(0.0, requested - before)
                actions.append(MeasuredAction(rank, iteration, action, began, ended, wait_s, engine_s))
                before = ended
    return tuple(actions)


def _exchanges(reports: list[Any]) -> tuple[MeasuredExchange, ...]:
    return tuple(
        MeasuredExchange(rank, iteration, *exchanged)
        for rank, each in enumerate(reports)
        for iteration, record in enumerate(each["records"])
        for exchanged in record["exchanged"]
    )


def _messages(machine: Machine, reports: list[Any]) -> tuple[MeasuredMessage, ...]:
    """Joins what sender and receiver wrote down of one message."""
    script = machine.script
    rank_of = {device: rank for rank, device in enumerate(script.devices)}
    sent = [[{(c, p, g): when for c, p, g, when in record["sent"]} for record in each["records"]] for each in reports]
    messages = []
    for rank, each in enumerate(reports):
        for iteration, record in enumerate(each["records"]):
            for channel, piece, gradient, arrived, waited in record["arrived"]:
                at = script.channels[channel]
                sender = rank_of[at.dst_device if gradient else at.src_device]
                number = at.pieces[piece].read_in if gradient else at.pieces[piece].sent_in
                segment = at.readers[-1] if gradient else at.source
                do = Do.BACKWARD if gradient else Do.FORWARD
                messages.append(
                    MeasuredMessage(
                        channel, piece, sender, rank, iteration, f"{segment}{do.value}{number}",
                        machine.message_bytes(channel, piece, gradient),
                        sent[sender][iteration][channel, piece, gradient], arrived, waited,
                    )
                )  # fmt: skip
    return tuple(messages)


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return (names or [platform.processor() or platform.machine()])[0]
