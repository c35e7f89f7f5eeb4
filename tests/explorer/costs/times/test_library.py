"""A library keeps what was measured and grows by more of the same hardware; a file that is none is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.costs.times.calls import Call, classes, sizes
from explorer.costs.times.from_profile import library_of
from explorer.costs.times.library import Library, merged
from explorer.costs.times.library_json import load_library, read_library, write_library
from solvers.errors import InvalidProblem
from solvers.problem.graph import Phase
from tests.explorer.costs.profiles import profile_of
from tests.explorer.costs.times.libraries import MS, library_of_linear, linear_time
from tests.explorer.tracing.models import demo


def test_a_library_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    library = library_of_linear()
    assert read_library(write_library(library)) == library
    file = tmp_path / "times.json"
    file.write_text(write_library(library))
    assert load_library(str(file)) == library


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "placement-explorer/profile"}, "expected"),
        ({"version": 2}, "version 1"),
        ({"more": 1}, "unknown field"),
        ({"hardware": " "}, "a name"),
        ({"hardware": "x" * 201}, "at most 200 characters"),
        ({"threads": 0}, "threads"),
        ({"sources": []}, "at least one source"),
        ({"times": []}, "at least one source"),
        ({"times": "none"}, "a list"),
    ],
)
def test_what_is_no_library_is_refused_and_the_place_named(change: dict[str, Any], message: str) -> None:
    value = json.loads(write_library(library_of_linear())) | change
    with pytest.raises(InvalidProblem) as error:
        read_library(json.dumps(value), "x.json")
    assert str(error.value).startswith("x.json")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": 0}, "more than 0"),
        ({"seconds": -1}, "seconds"),
        ({"spread": None}, "spread"),
        ({"phase": "sideways"}, "one of forward"),
        ({"flops": 2**60}, "flops"),
        ({"flops": 1.5}, "flops"),
        ({"product": {"count": 1}}, "missing"),
        ({"product": {"count": 0, "rows": 1, "columns": 1, "depth": 1}}, "count"),
        ({"source": 1}, "no source 1"),
        ({"count": 0}, "count"),
        ({"shape": [0] * 65}, "at most 64"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_time_that_is_none_is_refused_and_the_place_named(change: dict[str, Any], message: str) -> None:
    value = json.loads(write_library(library_of_linear()))
    value["times"][1] |= change
    with pytest.raises(InvalidProblem) as error:
        read_library(json.dumps(value), "x.json")
    assert "times[1]" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_call_is_there_once() -> None:
    with pytest.raises(InvalidProblem, match="occurs twice"):
        library_of_linear(linear_time(1, MS), linear_time(1, 2 * MS))


def test_libraries_of_one_hardware_add_up_to_one() -> None:
    """Rows 1 and 4 before, 4 and 8 after: the common one is the mean, by how many operators each has seen."""
    before = library_of_linear(linear_time(1, MS), linear_time(4, 2 * MS, count=3))
    after = library_of_linear(linear_time(4, 6 * MS, count=1), linear_time(8, 9 * MS))
    both = merged(before, replace(after, sources=(replace(after.sources[0], reference="bert"),)))
    assert [source.reference for source in both.sources] == ["gpt", "bert"]
    rows = [(t.call.size.rows, round(t.seconds / MS, 9), t.count, t.source) for t in both.times]
    assert rows == [(1, 1, 1, 0), (4, 3, 4, 1), (8, 9, 1, 1)]


@pytest.mark.parametrize("change", [{"hardware": "Abacus"}, {"threads": 2}, {"torch": "2.12.0"}])
def test_times_of_other_hardware_or_versions_are_not_put_together(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidProblem, match=next(iter(change))):
        merged(library_of_linear(), library_of_linear(**change))


def test_a_profile_says_what_calls_took() -> None:
    """Alike operators count once, by their medians; updates once for each optimizer."""
    graph = demo("gpt-small").graph
    library = library_of(graph, profile_of(graph, ranks=1))
    assert (library.hardware, library.threads, library.torch) == ("Slide Rule (R) 3000", 1, "2.13.0")
    times = {time.call: time for time in library.times}
    index, size, of = graph.index_of(), sizes(graph, (1, 4)), classes(graph, "adam")
    alike = [index[f"blocks.{k}.attn.qkv/linear"] for k in range(4)]
    entry = times[Call(of[alike[0]], size[alike[0]][1])]
    assert entry.count == 4
    assert entry.samples == 4
    assert entry.shape == (4, *graph.tensors[graph.outputs[alike[0]][0]].shape[1:])
    # (k + 1) x 3 ms is the lower quartile, and the median is 5 % more.
    assert entry.seconds == pytest.approx(sum((k + 1) * 3 * MS * 1.05 for k in alike) / 4)
    updates = [time for time in library.times if time.call.of.phase is Phase.UPDATE]
    assert {(time.call.of.op_type, round(time.seconds / MS, 9)) for time in updates} == {
        ("update.adam", 5), ("update.sgd", 2)
    }  # fmt: skip


def test_a_profile_of_two_kinds_of_hardware_is_of_neither() -> None:
    graph = demo("gpt-small").graph
    with pytest.raises(InvalidProblem, match="one at a time"):
        library_of(graph, profile_of(graph, hardware=("Abacus", "Slide Rule")))


@pytest.mark.parametrize(
    ("hardware", "kind"), [("NVIDIA H200", "H200-141GB"), ("Intel(R) Xeon(R) Processor", "cpu-core")]
)
def test_times_are_of_the_catalogues_kind_of_device(hardware: str, kind: str) -> None:
    assert library_of_linear(hardware=hardware).kind == kind


def test_hardware_that_the_catalogue_does_not_have_is_named() -> None:
    library: Library = library_of_linear(hardware="NVIDIA Abacus")
    with pytest.raises(InvalidProblem, match=r"NVIDIA Abacus.*known are V100-16GB"):
        _ = library.kind
