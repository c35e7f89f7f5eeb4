"""The demonstration models: listed without torch, sized as published, trainable when small."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from demo_models import MODELS

FAMILIES = (
    "gpt", "bert", "resnet50", "inception", "gnmt", "multimodal", "dlrm", "candle_uno", "rnnlm", "transformer",
    "nasnet", "llama", "moe",
)  # fmt: skip
SMALL = [f"{family}-small" for family in FAMILIES]


def test_the_list_of_models_does_not_import_torch() -> None:
    code = "import sys, demo_models; assert 'torch' not in sys.modules; print(*demo_models.MODELS)"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(listed) == {*FAMILIES, *SMALL}


def test_every_model_is_listed_under_its_own_name() -> None:
    assert all(demo.name == name and demo.title and demo.description for name, demo in MODELS.items())


@pytest.mark.parametrize("name", list(MODELS))
def test_the_stated_number_of_parameters_is_about_the_number_there_is(name: str) -> None:
    number, unit = MODELS[name].parameters.split()
    with torch.device("meta"):
        module, _ = MODELS[name].build()
    shown = float(number) * {"k": 1e3, "million": 1e6, "billion": 1e9}[unit]
    assert sum(p.numel() for p in module.parameters()) == pytest.approx(shown, rel=0.05)


@pytest.mark.parametrize(
    ("name", "parameters"),
    # He et al. and Szegedy et al. as in torchvision's resnet50 and inception_v3 (aux_logits=False); Zoph et
    # al. as in keras.applications' NASNetLarge (trainable ones); Grattafiori et al. as in Meta's Llama-3-8B.
    [("resnet50", 25_557_032), ("inception", 23_834_568), ("nasnet", 88_753_150), ("llama", 8_030_261_248)],
)
def test_a_published_network_has_its_published_number_of_parameters(name: str, parameters: int) -> None:
    with torch.device("meta"):
        module, _ = MODELS[name].build()
    assert sum(p.numel() for p in module.parameters()) == parameters


def test_gpt_has_about_a_billion_parameters() -> None:
    with torch.device("meta"):
        module, _ = MODELS["gpt"].build()
    assert 0.9e9 < sum(p.numel() for p in module.parameters()) < 1.2e9


def test_bert_with_tied_heads_would_have_its_published_number_of_parameters() -> None:
    with torch.device("meta"):
        module, _ = MODELS["bert"].build()
    tied = sum(p.numel() for p in module.parameters()) - 30522 * 1024
    assert tied == 336_226_108  # BERT-large, uncased, with both heads of its pre-training


def test_rnnlm_has_about_66_million_parameters() -> None:
    """Zaremba et al. 2014: two LSTM layers of width 1500, 10,000 words in and out."""
    with torch.device("meta"):
        module, _ = MODELS["rnnlm"].build()
    layer = 4 * 1500 * 2 * 1500  # four gates of input and state
    biases = 2 * 2 * 4 * 1500 + 10_000
    assert sum(p.numel() for p in module.parameters()) == 2 * 10_000 * 1500 + 2 * layer + biases


def test_transformer_with_one_shared_table_would_have_about_its_published_65_million_parameters() -> None:
    with torch.device("meta"):
        module, _ = MODELS["transformer"].build()
    shared = sum(p.numel() for p in module.parameters()) - 2 * 37000 * 512
    assert shared == pytest.approx(65e6, rel=0.03)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "name", ["rnnlm-small", "gnmt-small", "transformer-small", "nasnet-small", "llama-small", "moe-small"]
)
def test_a_small_model_learns_its_batch(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = MODELS[name].build()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    losses = []
    for _ in range(16):
        optimizer.zero_grad()
        losses.append(module(*inputs))
        losses[-1].backward()
        assert all(torch.isfinite(p.grad).all() for p in module.parameters())
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", SMALL)
def test_a_small_model_takes_one_training_step_and_its_loss_stays_finite(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = MODELS[name].build()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    module(*inputs).backward()
    assert all(p.grad is not None for p in module.parameters())
    optimizer.step()
    loss = module(*inputs)
    assert loss.shape == ()
    assert torch.isfinite(loss)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_first_dimension_of_every_input_is_the_batch(name: str) -> None:
    with torch.device("meta"):
        _, inputs = MODELS[name].build()
    assert len({x.shape[0] for x in inputs}) == 1
