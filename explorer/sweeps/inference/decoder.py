"""A decoder as two graphs: the pass over a prompt, and a pass for one more token from a KV cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from explorer.question.loading import ignore, is_traced, load
from explorer.question.models.example import join_example, says_degree, split_example
from explorer.question.nodes.groups import ANY_MEMBERS, Members, divider
from explorer.sweeps.inference.kv_cache import Latent, check_decoder, with_cache
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.problem.collectives import ATTENTION
from solvers.problem.graph import CACHED_ATTENTION, OpGraph

if TYPE_CHECKING:
    from explorer.tracing.captured import Captured

MOST_TOKENS = 2**24
LEAST_PROMPT = 2
"""Tokens of a prompt that show whether attention is causal."""


@dataclass(frozen=True, slots=True)
class Phases:
    """What one member of a tensor-parallel group runs.

    prefill, decode: without any cache in their bytes. prefill_cache, cache: [operators] B that an operator holds of
    the KV cache of one sequence at the longest.
    """

    prefill: Workload
    decode: Workload
    prefill_cache: tuple[float, ...]
    cache: tuple[float, ...]

    @property
    def cache_bytes(self) -> float:
        """Of one sequence, of all layers."""
        return sum(self.cache)


@dataclass
class Decoder:
    """A model by its name, traced for inference over ``prompt`` tokens and over one.

    context: tokens that a sequence has at the most: its cache has room for them, and decode is timed with them.
    latent: what latent attention keeps of a token; None where keys and values are kept.
    causal: whether masks that the model makes itself are causal.
    """

    model: str
    prompt: int
    context: int
    dtype: str | None = None
    latent: Latent | None = None
    causal: bool = False
    on_call: Callable[[int], None] = ignore
    _captured: dict[int, tuple[Captured, Captured, Workload]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not LEAST_PROMPT <= self.prompt <= MOST_TOKENS:
            raise InvalidProblem(
                f"--prompt must be from {LEAST_PROMPT} to {MOST_TOKENS:,} tokens, found {self.prompt:,}"
            )
        if not self.prompt <= self.context <= MOST_TOKENS:
            raise InvalidProblem(
                f"--context is all tokens of a sequence, the prompt ({self.prompt:,}) among them, and at most"
                f" {MOST_TOKENS:,}; found {self.context:,}"
            )
        if says_degree(self.model):
            raise InvalidProblem("decode tries every degree of tensor parallelism; leave out --tensor-parallel")
        if not is_traced(split_example(self.model)[0]) or split_example(self.model)[0].endswith(".pt2"):
            raise InvalidProblem(
                f"{self.model}: a file holds one length of its sequences, and decoding takes two; give a demo, hf:TYPE"
                " or package.module:callable"
            )
        if split_example(self.model)[1].sequence is not None:
            raise InvalidProblem("decode takes the length of the prompt from --prompt; leave out --sequence")

    @property
    def name(self) -> str:
        """For people, and for files: what a plan of the decode phase is of."""
        return f"{self.model} (decode, KV cache of {self.context:,} tokens)"

    def at(self, degree: int, members: Members = ANY_MEMBERS) -> Phases:
        """Divided over so many devices. Raises PlacementError where it cannot be."""
        from explorer.tracing.build import build

        divide = divider(degree, 0, self.dtype, members)
        pairs = {tokens: self._at(tokens)[:2] for tokens in (self.prompt, 1)}
        if divide is not None:
            pairs = {tokens: divide(*pair, False)[:2] for tokens, pair in pairs.items()}
        prefill, decode, cached = (
            build(*pair, reference=self.model, training=False, tensor_parallel=degree)
            for pair in (*pairs.values(), tuple(with_cache(one, self.context, self.latent) for one in pairs[1]))
        )
        held = {
            one.name: (one.buffer_bytes - before.buffer_bytes) / decode.graph.samples
            for one, before in zip(cached.graph.operators, decode.graph.operators, strict=True)
        }
        graph = _priced(decode.graph, cached.graph)
        decode = replace(decode, graph=graph, reference=self.name, notes=(*self._at(1)[2].notes, *decode.notes))
        return Phases(prefill, decode, _by_attention(prefill.graph, held), _by_attention(graph, held))

    def _at(self, tokens: int) -> tuple[Captured, Captured, Workload]:
        """The whole model over so many tokens, captured once. Raises PlacementError."""
        if tokens not in self._captured:
            captures: list[Captured] = []

            def capture(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
                captures[:] = small, large
                return small, large, 1

            name = join_example(self.model, sequence=tokens)
            workload = load(name, training=False, dtype=self.dtype, on_call=self.on_call, divide=capture)
            self._captured[tokens] = captures[0], captures[1], workload
            if tokens > 1:
                check_decoder(captures[0], self._at(1)[0], causal=self.causal)
        return self._captured[tokens]


def _priced(graph: OpGraph, cached: OpGraph) -> OpGraph:
    """A graph over one token with the FLOPs and the bytes of attention to a cache; the cache itself is not held yet."""
    operators = []
    for one, other in zip(graph.operators, cached.operators, strict=True):
        op_type = CACHED_ATTENTION if one.op_type == ATTENTION else one.op_type
        operators.append(replace(one, op_type=op_type, flops=other.flops, moved_bytes=other.moved_bytes, causal=False))
    return replace(graph, operators=tuple(operators))


def _by_attention(graph: OpGraph, held: dict[str, float]) -> tuple[float, ...]:
    """What is held by the operators of another graph of the model, by name. Raises InvalidProblem where one is not
    there."""
    there = {operator.name for operator in graph.operators}
    if missing := sorted(name for name, nbytes in held.items() if nbytes and name not in there):
        raise InvalidProblem(f"{graph.name}: over a prompt there is no operator {missing[0]!r}, which has a cache")
    return tuple(held.get(operator.name, 0.0) for operator in graph.operators)


def graph_holding(graph: OpGraph, cache: tuple[float, ...], sequences: int) -> OpGraph:
    """The graph whose operators hold the KV cache of so many sequences, beside what they hold.

    cache: [operators] B of one sequence.
    """
    operators = tuple(
        replace(one, buffer_bytes=one.buffer_bytes + sequences * nbytes) if nbytes else one
        for one, nbytes in zip(graph.operators, cache, strict=True)
    )
    return replace(graph, operators=operators)


def without_cache(graph: OpGraph) -> OpGraph:
    """The graph as if what attention reads were held elsewhere: for comparison."""
    operators = tuple(
        replace(one, op_type=ATTENTION) if one.op_type == CACHED_ATTENTION else one for one in graph.operators
    )
    return replace(graph, operators=operators)
