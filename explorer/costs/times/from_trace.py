"""A library from traces of torch.profiler: calls by what they do, the median over the times that they ran."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from explorer.costs.times.calls import Call
from explorer.costs.times.library import NOT_STATED, CallTime, Library, Source
from explorer.costs.times.trace_calls import Parts, parts_of
from explorer.costs.times.trace_events import Event, Seen, Trace
from solvers.errors import InvalidProblem

CLOCK = "torch.profiler"


@dataclass(frozen=True, slots=True)
class Imported:
    """library: what could be read. left_out: names of forward calls that could not, with their number, most time first;
    covered: share of the time of all forward calls and their backward that the library has."""

    library: Library
    left_out: tuple[tuple[str, int], ...]
    covered: float


def imported(
    traces: Iterable[Trace], reference: str, *, hardware: str | None, threads: int = 1, torch: str | None = None
) -> Imported:
    """traces: of one rank, or of several. hardware: None for the GPU that the traces name. Raises InvalidProblem where
    nothing is known of it, or no call of the traces is known."""
    by_call: dict[Call, tuple[list[float], Parts]] = {}
    left: Counter[str] = Counter()
    times: Counter[str] = Counter()
    names: list[str] = []
    kept_s = all_s = 0.0
    for trace in traces:
        names.append(_hardware(trace, hardware))
        for seen in trace.calls:
            parts = parts_of(seen.forward.name, seen.forward.args)
            taken = seconds_of(seen.forward, trace) + sum(seconds_of(node, trace) for node in seen.backward)
            all_s += taken
            if parts is None:
                if taken > 0:
                    left[seen.forward.name] += 1
                    times[seen.forward.name] += math.ceil(taken * 1e9)
                continue
            for call, seconds in times_of(seen, parts, trace):
                if seconds > 0:
                    by_call.setdefault(call, ([], parts))[0].append(seconds)
                    kept_s += seconds
    if not by_call:
        raise InvalidProblem("the trace has no call whose work is known, such as aten::linear or aten::conv2d")
    if len(set(names)) > 1:
        raise InvalidProblem(
            f"the traces are of {', '.join(sorted(set(names))[:4])}; say which one ran it (--hardware)"
        )
    source = Source(reference[:200], datetime.now(UTC).isoformat(timespec="seconds"), CLOCK)
    library = Library(
        names[0], threads, torch or NOT_STATED, NOT_STATED, (source,),
        tuple(_time(call, seconds, parts) for call, (seconds, parts) in by_call.items()),
    )  # fmt: skip
    left_out = tuple((name, left[name]) for name, _ in times.most_common())
    return Imported(library, left_out, kept_s / all_s if all_s > 0 else 1.0)


def _hardware(trace: Trace, stated: str | None) -> str:
    if stated is not None:
        return stated
    if not trace.on_device or not trace.devices:
        raise InvalidProblem("the trace does not say which processor it was made on; name it (--hardware)")
    if len(set(trace.devices)) > 1:
        raise InvalidProblem(f"the trace names {', '.join(trace.devices[:4])}; say which one ran it (--hardware)")
    return trace.devices[0]


def seconds_of(event: Event, trace: Trace) -> float:
    """What a call took: its kernels, where any ran on a GPU."""
    return event.device_s if trace.on_device else event.seconds


def times_of(seen: Seen, parts: Parts, trace: Trace) -> list[tuple[Call, float]]:
    """Seconds of the forward and, where it ran, of either part of the backward."""
    times = [(parts.forward, seconds_of(seen.forward, trace))]
    if not seen.backward:
        return times
    whole = sum(seconds_of(node, trace) for node in seen.backward)
    if parts.to_weight is None or not _reaches_input(seen, parts):
        only = parts.to_weight or parts.to_input
        return times if only is None else [*times, (only, whole)]
    if parts.to_input is None:
        return [*times, (parts.to_weight, whole)]
    first, second = _halves(seen, trace)
    return [
        *times,
        (parts.to_input, whole * first / (first + second)),
        (parts.to_weight, whole * second / (first + second)),
    ]


def _products(seen: Seen) -> list[Event]:
    """Products of matrices that the backward was made of, in order: first for the inputs, then for the weights."""
    return [part for node in seen.backward for part in node.parts if part.name in ("aten::mm", "aten::bmm")]


def _reaches_input(seen: Seen, parts: Parts) -> bool:
    """Whether gradients went to the inputs. A first layer has none to give them to."""
    if parts.to_input is None:
        return False
    for node in seen.backward:
        for part in node.parts:
            if part.name == "aten::convolution_backward":
                constants = part.args.get("Concrete Inputs")
                mask = str(constants[-1]) if isinstance(constants, list) and constants else ""
                return not mask.lstrip("[").startswith("False")
    if parts.forward.of.op_type in ("aten.linear", "aten.addmm"):
        return len(_products(seen)) != 1
    return True


def _halves(seen: Seen, trace: Trace) -> tuple[float, float]:
    """How the backward divides between inputs and weights: as its two products do, else in halves."""
    products = [seconds_of(part, trace) for part in _products(seen)]
    return (products[0], products[1]) if len(products) == 2 and min(products) > 0 else (1.0, 1.0)


def _time(call: Call, seconds: list[float], parts: Parts) -> CallTime:
    calm, middle = np.quantile(seconds, (0.25, 0.5))
    return CallTime(
        call,
        float(middle),
        float(middle / calm - 1.0),
        len(seconds),
        max(1, parts.shape[0] if parts.shape else 1),
        parts.shape,
    )
