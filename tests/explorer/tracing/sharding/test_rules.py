"""What a call allows is what can be computed: members that run it on their shares make the whole result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from explorer.tracing.captured import Captured, Node
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.loops import Loop
from explorer.tracing.sharding.rules import RULES, analyse
from tests.explorer.tracing.sharding.captures import demo
from tests.explorer.tracing.sharding.members import call, random_value, rows, share

DEGREE = 2
MODELS = ("gpt-small", "llama-small", "moe-small", "bert-small", "resnet50-small", "inception-small", "gnmt-small",
          "rnnlm-small", "transformer-small", "multimodal-small", "dlrm-small", "candle_uno-small")  # fmt: skip
SIZES = ("size", "shape", "sizes")
"""Arguments that state the shape of what comes out."""


@pytest.mark.first(5)
@pytest.mark.parametrize("name", MODELS)
def test_shares_of_a_call_make_its_result(name: str) -> None:
    small, large = demo(name)
    known = analyse(small)
    choices = Choices(known, large, DEGREE, whole_weights=True)
    seen = set()
    checked = 0
    for at, node in enumerate(small.nodes):
        for loop in known.loops.get(at, ()):
            for leaf in known.dimensions.leaves(loop.leaves):
                if known.dimensions.lengths[leaf] % DEGREE or not _once(choices, node, loop, leaf):
                    continue
                shapes = tuple(small.values[value].shape for _, value in node.tensors)
                key = (node.target, shapes, str(node.constants), loop.inputs, loop.outputs, leaf in choices.barred)
                if key not in seen:
                    seen.add(key)
                    _check(choices, node, loop, leaf)
                    checked += 1
    assert checked > 10


def test_every_rule_but_those_of_rare_calls_is_checked() -> None:
    met = {node.target for name in MODELS for node in demo(name)[0].nodes}
    unmet = {target for target in RULES if target not in met and f"{target}_" not in met}
    assert len(RULES) - len(unmet) >= 35


def _once(choices: Choices, node: Node, loop: Loop, leaf: int) -> bool:
    """Where a tensor has a leaf twice, only the program's options say which is meant."""
    places = zip((value for _, value in node.tensors), loop.inputs, strict=True)
    made = zip(node.outputs, loop.outputs, strict=True)
    return all(p is None or (choices.has(v, leaf) == 1 and leaf in choices.leaves(v, p)) for v, p in (*places, *made))


def _check(choices: Choices, node: Node, loop: Loop, leaf: int) -> None:
    if loop.statistics or loop.ring:
        return  # members exchange within the call: the next test
    small = choices.captured
    values = _random(small, node)
    whole = _run(small, node, values, {})
    parts = []
    for member in range(DEGREE):
        own = dict(values)
        for position, ((_, name), place) in enumerate(zip(node.tensors, loop.inputs, strict=True)):
            if place is not None:
                own[position] = share(choices, name, place, leaf, values[position], member)
            elif position in loop.once and member:
                own[position] = torch.zeros_like(values[position])
        parts.append(_run(small, node, own, _local_constants(choices, node, loop, leaf), member, loop))
    for number, place in enumerate(loop.outputs):
        got = [part[number] for part in parts]
        if place is None:
            total: torch.Tensor = sum(got[1:], got[0])
            if node.target == "aten.cross_entropy_loss":
                total = total / DEGREE  # a mean over rows: of means over as many
            torch.testing.assert_close(total, whole[number], rtol=1e-4, atol=1e-4)
        else:
            for member, part in enumerate(got):
                expected = share(choices, node.outputs[number], place, leaf, whole[number], member)
                torch.testing.assert_close(part, expected, rtol=1e-4, atol=1e-4, msg=f"{node.target} along {place}")


def _random(small: Captured, node: Node) -> dict[int, torch.Tensor]:
    torch.manual_seed(0)
    table = small.values[node.tensors[0][1]].shape if node.tensors else ()
    most = (table[-1 if node.target == "aten.cross_entropy_loss" else 0]) if table else 2
    return {at: random_value(small.values[name], most) for at, (_, name) in enumerate(node.tensors)}


def _local_constants(choices: Choices, node: Node, loop: Loop, leaf: int) -> dict[str, object]:
    changed: dict[str, object] = {}
    for key, value in node.constants.items():
        if key in SIZES and isinstance(value, (list, tuple)) and node.target not in ("aten.unflatten",):
            changed[key] = list(choices.local_shape(node.outputs[0], leaf, loop.outputs[0]))
        elif key == "sizes":
            dim = int(node.constants["dim"]) % len(choices.captured.values[node.tensors[0][1]].shape)  # type: ignore[call-overload]
            local = choices.local_shape(node.outputs[0], leaf, loop.outputs[0])
            changed[key] = list(local[dim : dim + len(value)])  # type: ignore[arg-type]
        elif key == "groups" and isinstance(value, int) and value > 1 and loop.inputs[0] == 1:
            changed[key] = value // DEGREE
    return changed


def _run(
    small: Captured,
    node: Node,
    values: dict[int, torch.Tensor],
    changed: dict[str, object],
    member: int = 0,
    loop: Loop | None = None,
) -> Sequence[torch.Tensor]:
    grouped: dict[str, list[torch.Tensor]] = defaultdict(list)
    for position, (argument, _) in enumerate(node.tensors):
        grouped[argument].append(values[position].clone())
    arguments: dict[str, Any] = {**node.constants, **changed}
    name = node.target.removeprefix("aten.")
    lists = name in ("cat", "stack")
    arguments |= {argument: each if lists else each[0] for argument, each in grouped.items()}
    if name == "dropout":
        arguments["train"] = False
    if name in ("to", "_to_copy"):
        return [values[0].clone()]
    if name == "layer_norm" and arguments.get("normalized_shape") is None:
        return []
    if name == "embedding" and loop is not None and loop.inputs[0] == 0:
        return [rows(arguments["weight"], arguments["indices"], member)]
    result = call(name, arguments)
    return [result] if isinstance(result, torch.Tensor) else list(result)
