"""graph.json: what is written is read back, and what is broken is refused in one line that says where."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings

from solvers.errors import InvalidProblem
from solvers.formats.graph_json import read_graph, write_graph
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.workload import Workload
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from tests.solvers.formats.graphs import graphs, workloads

CHAIN = OpGraph((Operator("a"), Operator("b")), (Tensor(0, (1,), Amount(8, 4)),))


@settings(deadline=None, max_examples=60)
@given(workloads())
def test_round_trip_loses_nothing(workload: Workload) -> None:
    read = read_graph(write_graph(workload))
    for name in ("graph", "reference", "transfer_s", "stated_bytes", "cluster", "training", "objective", "transfers",
                 "execution", "costs_from", "parameters", "notes"):  # fmt: skip
        assert getattr(read, name) == getattr(workload, name)
    assert (read.compute is None) == (workload.compute is None)
    if read.compute is not None and workload.compute is not None:
        assert read.compute.samples == workload.compute.samples
        for kind, table in workload.compute.seconds.items():
            np.testing.assert_array_equal(read.compute.seconds[kind], table)


@settings(deadline=None, max_examples=30)
@given(graphs())
def test_hash_survives_the_round_trip(graph: OpGraph) -> None:
    assert graph_hash(read_graph(write_graph(Workload(graph, ""))).graph) == graph_hash(graph)


def test_equal_graphs_hash_alike_whether_sizes_are_integers_or_floats() -> None:
    floats = OpGraph(CHAIN.operators, (Tensor(0, (1,), Amount(8.0, 4.0)),))
    assert graph_hash(CHAIN) == graph_hash(floats)


def test_another_size_gives_another_hash() -> None:
    assert graph_hash(CHAIN) != graph_hash(OpGraph(CHAIN.operators, (Tensor(0, (1,), Amount(8, 5)),)))


def broken(change: str) -> dict:
    """The chain's graph.json after ``change``, a statement on ``value``."""
    value = json.loads(write_graph(Workload(CHAIN, "chain")))
    exec(change, {"value": value, "graph": value["graph"], "inf": float("inf")})
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("value.update(version=2)", "graph.json: this program reads version 1"),
        ("value.update(format='other')", 'expected "format": "placement-explorer/graph"'),
        ("value.pop('graph')", "graph.json: graph: missing"),
        ("value.update(extra=1)", "graph.json: extra: unknown field"),
        ("graph['operators'][0].update(flops=[1, -1])", r"graph.operators\[0\].flops\[1\]: expected a finite"),
        ("graph['operators'][0].update(param_bytes=inf)", r"operators\[0\].param_bytes: expected a finite number >= 0"),
        ("graph['operators'][0].update(param_bytes=True)", "found true"),
        ("graph['operators'][0].update(phase='sideways')", "phase: expected one of forward, backward_input"),
        ("graph['operators'][0].update(name=7)", r"operators\[0\].name: expected a text"),
        ("graph['operators'][1].update(name='a')", "names must be unique"),
        ("graph.update(operators=[], tensors=[])", "graph.json: graph: the graph has no operators"),
        ("graph['tensors'][0].update(producer=9)", r"tensors\[0\].producer: expected an integer from 0 to 1, found 9"),
        ("graph['tensors'][0].update(consumers=[1, 1])", "listed twice"),
        ("graph['tensors'].append({'producer': 1, 'consumers': [0]})", "has a cycle: a -> b -> a"),
        ("graph.update(samples=0)", "samples: expected an integer >= 1"),
        ("value.update(transfer_s=[])", r"transfer_s: expected a list of 1, found a list of 0"),
        ("value.update(stated_bytes=[1, -2])", r"stated_bytes\[1\]: expected a finite number >= 0"),
        ("value.update(compute={'samples': [1], 'seconds': {'gpu': [[1]]}})", "expected a list of 2"),
        ("value.update(compute={'samples': [1], 'seconds': {'gpu': [[1], [1e300]]}})", "expected at most 1e.100 s"),
        ("value.update(compute={'samples': [1], 'seconds': {'gpu': [[1], [-1]]}})", r"\['gpu'\]\[1\]\[0\]: expected"),
        ("value.update(cluster={'devices': []})", "the cluster has no devices"),
    ],
)  # fmt: skip
def test_refusal_says_where_and_what(change: str, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message) as caught:
        read_graph(broken(change))
    assert "\n" not in str(caught.value)
