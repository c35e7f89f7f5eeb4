"""The Chrome trace has every span, on rows that do not overlap, in microseconds."""

from __future__ import annotations

from itertools import pairwise

from solvers.formats.chrome_trace import chrome_trace
from solvers.formats.json_text import dump_json
from solvers.plan.schedule import MemoryCurve, Span
from solvers.problem.cluster import uniform_cluster
from tests.instances import devices, forward_graph
from tests.oracle.schedules import schedule_of_spans

GRAPH = forward_graph([(0, 1)], 2)
CLUSTER = uniform_cluster(devices(1, cpus=1), 1e9)
SCHEDULE = schedule_of_spans(
    (
        Span("0F0", "device 0", 0, 0.0, 1.0, operator=0),
        Span("1F0", "device 1", 1, 0.0, 2.0),
        Span("0F0>1", "0->1", 0, 1.0, 1.5, nbytes=8, to_device=1),
        Span("2F0", "device 1", 1, 1.0, 3.0),
        Span("3F0", "device 1", 1, 2.0, 3.0),
    ),
    (MemoryCurve((0.0, 1.0), (4.0, 8.0), 4.0), MemoryCurve((), (), 0.0)),
    shared=frozenset({"device 1"}),
)


def test_spans_become_complete_events_in_microseconds() -> None:
    events = chrome_trace(SCHEDULE, GRAPH, CLUSTER)["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == len(SCHEDULE.spans)
    transfer = next(e for e in spans if e["cat"] == "transfer")
    assert (transfer["ts"], transfer["dur"]) == (1e6, 0.5e6)
    assert transfer["args"] == {"action": "0F0>1", "bytes": 8, "from": 0, "to": 1}
    assert {e["name"] for e in spans} == {"a", "1F0", "0F0>1", "2F0", "3F0"}
    dump_json(events)


def test_rows_do_not_overlap_and_are_as_few_as_there_are_at_once() -> None:
    events = chrome_trace(SCHEDULE, GRAPH, CLUSTER)["traceEvents"]
    rows: dict[tuple[int, int], list[dict]] = {}
    for event in events:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
    assert len([row for row in rows if row[0] == 1]) == 2
    for row in rows.values():
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(row))


def test_memory_is_a_counter() -> None:
    events = chrome_trace(SCHEDULE, GRAPH, CLUSTER)["traceEvents"]
    assert [(e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C"] == [(0.0, 4.0), (1e6, 8.0)]
