"""Equal layers are divided alike where that costs no more."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn

from explorer.tracing.sharding.alike import alike
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.prices import seconds_of
from explorer.tracing.sharding.program import Division, GroupLink, Prices, cheapest, cost_s
from explorer.tracing.sharding.rules import analyse
from tests.explorer.tracing.sharding.captures import captured, demo
from tests.explorer.tracing.sharding.test_program import seconds

LAYERS = 6


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
        self.words, self.layers = nn.Embedding(1000, 64), nn.TransformerEncoder(layer, LAYERS)
        self.head = nn.Linear(64, 1000)

    def forward(self, words: Tensor, following: Tensor) -> Tensor:
        scores = self.head(self.layers(self.words(words)))
        return nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())


@cache
def divided(name: str) -> tuple[Choices, Prices, Division]:
    if name == "encoder":
        words = torch.zeros(4, 32, dtype=torch.int64)
        with torch.device("meta"):
            module = Encoder()
        small, large = captured(module, (words, words))
    else:
        small, large = demo(name)
    choices = Choices(analyse(small), large, 2)
    prices = Prices(seconds_of(choices, large, seconds, True), GroupLink(1e11, 5e-6), 1, True)
    return choices, prices, cheapest(choices, prices)


def by_layer(choices: Choices, division: Division, prefix: str) -> list[tuple[int, ...]]:
    """Of each layer which options its calls have."""
    layers: dict[str, list[int]] = {}
    for at, option in sorted(division.labels.items()):
        path = choices.captured.nodes[at].module_path
        if path.startswith(prefix):
            number = path.removeprefix(prefix).partition(".")[0]
            layers.setdefault(number, []).append(choices.options[at].index(option))
    return [tuple(options) for options in layers.values()]


def test_layers_between_the_ends_are_alike() -> None:
    choices, prices, division = divided("encoder")
    layers = by_layer(choices, alike(choices, prices, division), "layers.layers.")
    assert len(layers) == LAYERS
    assert len(set(layers[1:-1])) == 1


def test_layers_that_were_mixed_up_are_made_alike_again() -> None:
    """With another option of one call of the third layer."""
    choices, prices, division = divided("encoder")
    whole = alike(choices, prices, division)
    labels = dict(whole.labels)
    first = [at for at in sorted(labels) if choices.captured.nodes[at].module_path.startswith("layers.layers.2")]
    for at in first:
        others = [option for option in choices.options[at] if option != labels[at]]
        changed = labels | {at: others[0]} if others else labels
        mixed = Division(changed, cost_s(choices, prices, changed), division.bound_s, 0, 0.0)
        assert alike(choices, prices, mixed).cost_s <= mixed.cost_s
        if mixed.cost_s > whole.cost_s:
            assert alike(choices, prices, mixed).cost_s == pytest.approx(whole.cost_s, rel=1e-9)


@pytest.mark.first(2)
@pytest.mark.parametrize("name", ["encoder", "gpt-small", "bert-small", "resnet50-small", "gnmt-small"])
def test_it_costs_no_more_and_every_call_has_an_option(name: str) -> None:
    choices, prices, division = divided(name)
    best = alike(choices, prices, division)
    assert best.labels.keys() == choices.options.keys()
    assert best.cost_s == pytest.approx(cost_s(choices, prices, best.labels), rel=1e-9)
    assert best.cost_s <= division.cost_s * (1 + 1e-9)
    assert best.bound_s <= best.cost_s
