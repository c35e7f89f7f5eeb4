"""What the decoder of the transformer may look at."""

from __future__ import annotations

import torch

from demo_models.transformer import SIZES, Transformer, build, waves

WITHOUT = -100
"""An expected token that the loss leaves out."""


def model() -> tuple[Transformer, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    module, inputs = build(SIZES["small"])
    return module.eval(), inputs


def test_a_token_is_foretold_from_the_tokens_before_it_and_the_whole_source() -> None:
    module, (source, target, expected) = model()
    at = 3
    only = torch.full_like(expected, WITHOUT)
    only[:, at] = expected[:, at]
    loss = module(source, target, only)

    def changed(tokens: torch.Tensor, position: int) -> torch.Tensor:
        other = tokens.clone()
        other[:, position] = (other[:, position] + 1) % SIZES["small"].vocabulary
        return other

    assert module(source, changed(target, at + 1), only) == loss
    for position in (0, at):
        assert module(source, changed(target, position), only) != loss
    for position in (0, source.shape[1] - 1):
        assert module(changed(source, position), target, only) != loss


def test_positions_are_encoded_by_sines_and_cosines_of_ever_longer_waves() -> None:
    encoding = waves(tokens=50, width=8)
    assert encoding[0].tolist() == [0.0, 1.0] * 4
    torch.testing.assert_close(encoding[7, 0::2], torch.sin(7 / 10_000 ** (torch.arange(4) * 2 / 8)))
    torch.testing.assert_close(encoding[7, 1::2], torch.cos(7 / 10_000 ** (torch.arange(4) * 2 / 8)))
