"""Which tokens members have in two chunks, and what of a ring is not run."""

from __future__ import annotations

import pytest

from explorer.runner.model.exchanges.ring import Dealt
from explorer.runner.model.rings import as_dealt, dealt, mirrored_leaves
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.local import Part, member_of
from explorer.tracing.sharding.rules import analyse
from explorer.tracing.sharding.ways import attention_calls
from solvers.errors import RunError
from solvers.problem.collectives import Axis
from tests.explorer.runner.engine.divided_plans import both

MODULE = "tests.explorer.runner.model.attending:"


def first_round(model: str, degree: int) -> tuple[Part, Dealt]:
    """All attention of a model round a ring, and how the first of it is dealt out."""
    small, large = both(model)
    choices = Choices(analyse(small), large, degree, axis=Axis.CONTEXT)
    labels = {at: next((o for o in options if o.ring), options[0]) for at, options in choices.options.items()}
    part, member = Part(choices, labels), member_of(choices, labels, small)
    at, origin = next(iter(attention_calls(choices).items()))
    assert labels[at].ring
    call = next(node for node in member.nodes if node.name == origin.name)
    placement = as_dealt(part, mirrored_leaves(part), call.tensor("query") or "", member)
    return part, dealt(choices, call, origin, placement)


@pytest.mark.parametrize(
    ("model", "degree", "expected"),
    [
        ("gpt-small", 4, Dealt(True)),
        ("llama-small", 4, Dealt(True, 1, 2, 2)),
        ("bert-small", 4, Dealt()),
        (f"{MODULE}odd", 2, Dealt(True)),
        (f"{MODULE}odd", 4, Dealt()),
        (f"{MODULE}one_head", 2, Dealt(True)),
    ],
)
def test_causal_attention_is_dealt_out_evenly_where_it_can_be(model: str, degree: int, expected: Dealt) -> None:
    part, dealt = first_round(model, degree)
    assert dealt == expected
    assert len(mirrored_leaves(part)) == expected.mirrored


@pytest.mark.parametrize(("model", "words"), [("tiled", "otherwise than head by head"), ("learned", "has a gradient")])
def test_what_is_not_run_is_refused_in_one_line(model: str, words: str) -> None:
    with pytest.raises(RunError, match=words):
        first_round(f"{MODULE}{model}", 2)
