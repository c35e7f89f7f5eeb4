"""Which of the two ways attention is divided among members that divide tokens, with what either takes.

Round a ring, keys and values go to where queries are; by heads (Ulysses; Jacobs et al., 2023), tokens are exchanged for
heads before attention, and back after it. Where both are possible the integer program takes, call by call, what is
cheaper; here each is taken everywhere, for a person to compare.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from explorer.tracing.captured import Node
from explorer.tracing.sharding.choices import Choices, Option
from explorer.tracing.sharding.program import Held, Labels, Prices, cheapest, cost_s
from explorer.tracing.sharding.ring import is_causal, is_even, ring_bytes
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.problem.collectives import ATTENTION

RING, HEADS, QUERIES = "round a ring", "by heads (Ulysses)", "along its queries"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to divide all attention. seconds: of a micro-batch, forward and backward, all calls and exchanges one
    after the other, but for gradients of parameters; None where it is not possible, for a reason."""

    name: str
    seconds: float | None
    reason: str = ""


def way_of(choices: Choices, option: Option) -> str:
    """What an option of attention is called."""
    if option.ring:
        return RING
    return QUERIES if option.leaf in choices.tokens else HEADS


def attention_calls(choices: Choices) -> Mapping[int, Node]:
    """The attention of a model, by position."""
    nodes = choices.captured.nodes
    return {at: nodes[at] for at in choices.options if nodes[at].target == ATTENTION}


def ways(choices: Choices, prices: Prices, labels: Labels, check: Callable[[], None] = lambda: None) -> list[Way]:
    """Both ways, of which each is taken wherever it is possible. labels: the cheapest of all."""
    judged = []
    calls = attention_calls(choices)
    without_gradients = replace(prices, passes=2**53)
    for name in (RING, HEADS):
        if reason := _impossible(choices, calls, name):
            judged.append(Way(name, None, reason))
            continue
        held, least = only(choices, name), labels
        if held.of(choices, labels):
            least = cheapest(choices, prices, check, held=held).labels
        judged.append(Way(name, cost_s(choices, without_gradients, least)))
    return judged


def only(choices: Choices, name: str) -> Held:
    """What leaves nothing but one way, wherever that is possible: all others count, and none may."""
    calls = attention_calls(choices)
    others = {at: [0.0] * len(options) for at, options in choices.options.items()}
    for at in calls:
        names = [way_of(choices, option) for option in choices.options[at]]
        others[at] = [float(name in names and each != name) for each in names]
    return Held(others, 0.0)


def check_tokens(choices: Choices) -> None:
    """Raises InvalidProblem, in one line, where no tokens can be divided, or where all members would compute all of an
    attention."""
    options = choices.options
    lengths = sorted({choices.known.dimensions.lengths[leaf] for leaf in choices.tokens})
    if not any(option.leaf in choices.tokens for each in options.values() for option in each):
        lack = f"samples have {' and '.join(f'{length:,}' for length in lengths)} tokens" if lengths else "it has none"
        raise InvalidProblem(
            f"{choices.captured.name}: tokens cannot be divided over {choices.degree} devices, {lack}; give a degree"
            " that divides them (--context-parallel)"
        )
    for at, node in attention_calls(choices).items():
        if all(option.leaf < 0 for option in options[at]):
            reasons = " and ".join(_impossible(choices, {at: node}, name) for name in (RING, HEADS))
            raise InvalidProblem(
                f"{choices.captured.name}: {node.module_path or node.name} cannot be divided over {choices.degree}"
                f" devices: {reasons}; give another degree (--context-parallel)"
            )


def _impossible(choices: Choices, calls: Mapping[int, Node], name: str) -> str:
    """Why no attention can be divided so; "" where some can."""
    if any(way_of(choices, option) == name for at in calls for option in choices.options[at]):
        return ""
    node = next(iter(calls.values()))
    query, key = (choices.captured.values[node.tensor(argument) or ""].shape for argument in ("query", "key"))
    if name == RING:
        if query[-2] != key[-2]:
            return f"{query[-2]:,} tokens attend to {key[-2]:,} others"
        return f"{query[-2]:,} tokens cannot be divided over {choices.degree}"
    heads = _key_heads(choices, node)
    again = f" and over {choices.again} again" if choices.again > 1 else ""
    of_keys = " of keys" if heads != query[-3] else ""
    return f"{heads} heads{of_keys} cannot be divided over {choices.degree}{again}"


def _key_heads(choices: Choices, node: Node) -> int:
    """Heads of keys, before they were repeated for queries."""
    heads = []
    for argument in ("query", "key"):
        name = node.tensor(argument) or ""
        shared = choices.leaves(name, len(choices.captured.values[name].shape) - 3)
        lengths = choices.known.dimensions.lengths
        heads.append(max((lengths[leaf] for leaf in shared[:1]), default=1))
    return min(heads)


def notes_of_ways(choices: Choices, prices: Prices, labels: Labels) -> tuple[str, ...]:
    """Sentences for a person; none for a model without attention."""
    calls = attention_calls(choices)
    if not calls:
        return ()
    chosen = Counter(way_of(choices, labels[at]) for at in calls if labels[at].leaf >= 0)
    mixed = " and ".join(f"{count} {name}" for name, count in chosen.most_common())
    judged = ways(choices, prices, labels)
    costs = text.seconds_alike([way.seconds for way in judged], 3)
    possible = [f"{cost} with all of it {way.name}" for cost, way in zip(costs, judged, strict=True) if not way.reason]
    reasons = [f"; {way.name} is impossible: {way.reason}" for way in judged if way.reason]
    return (
        f"attention is divided {mixed if len(chosen) > 1 else next(iter(chosen), 'nowhere')}; a micro-batch of"
        f" {choices.captured.samples}, forward and backward with exchanges, takes {' and '.join(possible)}, calls one"
        f" after the other and without adding up gradients of parameters{''.join(reasons)}",
        *_of_rings(choices, {at: calls[at] for at in calls if labels[at].ring}),
    )


def _of_rings(choices: Choices, rings: Mapping[int, Node]) -> tuple[str, ...]:
    if not rings:
        return ()
    notes = []
    causal = [node for node in rings.values() if is_causal(node)]
    if any(is_even(choices, node) for node in causal):
        notes.append(
            f"causal attention round a ring is taken to be even: of {2 * choices.degree} chunks of tokens a member has"
            " one of the first half and its mirror image in the second (zigzag)"
        )
    if odd := [node for node in causal if not is_even(choices, node)]:
        times = (2 * choices.degree - 1) / choices.degree
        tokens = choices.captured.values[odd[0].tensor("query") or ""].shape[-2]
        notes.append(
            f"{tokens:,} tokens make no {2 * choices.degree} chunks: the last member of a ring has {times:.3g} times"
            " the even share of causal attention, and all wait for it"
        )
    if any(_is_repeated(choices, node) for node in rings.values()):
        notes.append("keys and values go round a ring as they are before they are repeated for groups of queries")
    return tuple(notes)


def _is_repeated(choices: Choices, node: Node) -> bool:
    there = sum(choices.captured.values[node.tensor(argument) or ""].nbytes for argument in ("key", "value"))
    return not math.isclose(ring_bytes(choices, node, choices.captured), there)
