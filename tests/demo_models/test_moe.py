"""The mixture of experts: two experts a token, a capacity that no values change, each expert an operator of its own."""

from __future__ import annotations

import torch

from demo_models import moe
from tests.explorer.tracing.models import demo, forward

SIZE = moe.SIZES["small"]


def test_a_mixture_with_room_for_all_is_the_weighted_sum_of_the_two_experts_of_each_token() -> None:
    torch.manual_seed(0)
    mixture = moe.Mixture(SIZE)
    mixture.capacity = SIZE.context
    x = torch.randn(2, SIZE.context, SIZE.width)
    score, chosen = mixture.router(x).topk(moe.CHOSEN, dim=-1)
    weight = score.softmax(dim=-1)
    every = torch.stack([expert(x) for expert in mixture.experts], dim=-2)
    picked = every.gather(-2, chosen[..., None].expand(*chosen.shape, SIZE.width))
    torch.testing.assert_close(mixture(x), (weight[..., None] * picked).sum(-2))


def test_an_expert_takes_no_more_than_its_capacity() -> None:
    """Five quarters of an even share: 32 tokens, two experts each, of four."""
    assert SIZE.capacity == 20
    up = [o for o in forward(demo("moe-small")) if o.name.endswith(".up/linear")]
    assert len(up) == SIZE.blocks * SIZE.experts
    assert {o.flops.per_sample for o in up} == {2 * 20 * SIZE.width * SIZE.hidden}
