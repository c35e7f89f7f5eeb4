"""A schedule as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Trace Event Format: "X" complete events with times in microseconds, "C" counters, "M" names.
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from solvers.plan.schedule import Schedule, Span
from solvers.problem.cluster import Cluster
from solvers.problem.graph import OpGraph

MICROSECONDS = 1e6

Event = dict[str, object]


def chrome_trace(
    schedule: Schedule,
    graph: OpGraph,
    cluster: Cluster,
    exchanged: Callable[[Span], tuple[float, float]] = lambda _: (0.0, 0.0),
) -> dict[str, object]:
    """The trace: a process per device (its compute, and its memory as a counter), one for the links.

    exchanged: seconds of a span in which the members of its device exchange, and bytes from each: a span of its own
    within it, at its end. Spans of a resource that runs several at once (CPU cores) get a row for each that overlaps.
    """
    links = len(cluster)
    names = [device.name for device in cluster.devices]
    events: list[Event] = [_name("process_name", i, 0, name) for i, name in enumerate(names)]
    events.append(_name("process_name", links, 0, "links"))
    rows: dict[str, list[Span]] = {}
    for span in schedule.spans:
        rows.setdefault(span.resource, []).append(span)
    free_thread = [0] * (links + 1)
    for resource, spans in rows.items():
        process = links if spans[0].is_transfer else spans[0].device
        for row, overlapping in enumerate(_rows(spans)):
            thread = free_thread[process]
            free_thread[process] += 1
            label = resource if row == 0 else f"{resource} ({row + 1})"
            events.append(_name("thread_name", process, thread, label))
            for span in overlapping:
                events.append(_span(span, process, thread, graph))
                seconds, nbytes = exchanged(span)
                if seconds > 0:
                    events.append(_exchange(span, process, thread, seconds, nbytes))
    for device, curve in enumerate(schedule.memory):
        for time_s, nbytes in zip(curve.times_s, curve.nbytes, strict=True):
            events.append(
                {"ph": "C", "pid": device, "name": "memory", "ts": time_s * MICROSECONDS, "args": {"bytes": nbytes}}
            )
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _span(span: Span, process: int, thread: int, graph: OpGraph) -> Event:
    args: dict[str, object] = {"action": span.action}
    name = span.action
    if span.is_transfer:
        args |= {"bytes": span.nbytes, "from": span.device, "to": span.to_device}
    elif span.operator >= 0:
        name = graph.operators[span.operator].name
        args["module"] = graph.operators[span.operator].module_path
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "cat": "transfer" if span.is_transfer else "compute",
        "ts": span.start_s * MICROSECONDS,
        "dur": (span.end_s - span.start_s) * MICROSECONDS,
        "args": args,
    }


def _exchange(span: Span, process: int, thread: int, seconds: float, nbytes: float) -> Event:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": "exchange in the group",
        "cat": "exchange",
        "ts": (span.end_s - seconds) * MICROSECONDS,
        "dur": seconds * MICROSECONDS,
        "args": {"action": span.action, "bytes from each member": nbytes},
    }


def _rows(spans: Iterable[Span]) -> list[list[Span]]:
    """Spans (ordered by start) in as few rows as there are at once."""
    rows: list[list[Span]] = []
    free: list[tuple[float, int]] = []
    for span in spans:
        if free and free[0][0] <= span.start_s:
            row = heapq.heappop(free)[1]
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(span)
        heapq.heappush(free, (span.end_s, row))
    return rows


def _name(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}
