"""Random numbers in a model (dropout), drawn by what draws them and for what: by seed, iteration, operator and first
sample. So they depend neither on which rank runs an operator nor on when, and a recomputation draws the same again."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextvars import ContextVar
from inspect import signature
from typing import TypeVar

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload

from explorer.runner.model.deferred_init import mixed
from explorer.runner.model.exchanges.ring import attention
from explorer.runner.model.flat import DROPPING, Context, inside, undropped

T = TypeVar("T")
DROPPED = list(signature(attention).parameters).index("dropped")
_SEED: ContextVar[int] = ContextVar("seed", default=0)
"""Of the call of a segment that is under way; 0 where a module is only timed."""


def seed_calls(module: fx.GraphModule, by_member: Callable[[str], int] = lambda call: 0) -> bool:
    """Have every call of a segment that draws numbers draw them by `drawn`. Returns whether there are any.

    by_member: of a call, by its name, a number by which its random numbers differ from other processes'; 0: they draw
    the same."""
    drawing = False
    for node in list(module.graph.nodes):
        if node.op == "call_function" and draws(node.target, node.args, node.kwargs):
            call = str(node.meta["call"])
            number = zlib.crc32((f"{call} {other}" if (other := by_member(call)) else call).encode())
            # The blocks it is in become an argument: of functions that are arguments only operators have a name in code
            contexts, target, *args = node.args if node.target is inside else ((), node.target, *node.args)
            if target is attention:
                node.args, node.target = (number, *args), drawn_round
            else:
                node.args, node.target = (number, contexts, target, *args), drawn
            drawing = True
    if drawing:
        module.recompile()
    return drawing


def draws(target: object, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether a call draws random numbers; a share of 0 to be dropped draws none that matter."""
    if target is inside:
        _, target, *rest = args
        return draws(target, tuple(rest), kwargs)
    if target is attention:
        return bool(args[DROPPED])
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    if any(part in target._schema.name for part in DROPPING):
        return undropped(target, args, kwargs) != (args, kwargs)
    return True


def drawn(number: int, contexts: tuple[Context, ...], target: Callable[..., T], *args: object, **kwargs: object) -> T:
    """A call inside blocks (see `inside`) with random numbers of its own."""
    seed = mixed(_SEED.get(), number)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(seed)
    return inside(contexts, target, *args, **kwargs)


def drawn_round(number: int, *args: object) -> Tensor:
    """Attention whose keys and values go round a ring, with random numbers of its own."""
    return drawn(number, (), attention, *args)


class Drawing:
    """Calls the module of a segment for a micro-batch; the generators are afterwards as they were.

    seed: of the run; mini_batch: which one is under way; first: of a micro-batch the first sample on this rank.
    """

    def __init__(self, seed: int, mini_batch: Callable[[], int], first: Callable[[int], int]) -> None:
        self.seed, self.mini_batch, self.first = seed, mini_batch, first

    def __call__(self, micro_batch: int, module: nn.Module, *inputs: Tensor) -> tuple[Tensor, ...]:
        started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        cuda = [torch.cuda.current_device()] if started else []
        seed = mixed(mixed(self.seed, self.mini_batch()), self.first(micro_batch))
        with torch.random.fork_rng(devices=cuda):
            token = _SEED.set(seed)
            try:
                return module(*inputs)  # type: ignore[no-any-return]
            finally:
                _SEED.reset(token)
