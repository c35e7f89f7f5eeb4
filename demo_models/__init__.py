"""The demonstration models: plain PyTorch, one file a family, each with its loss inside.

Importing this package does not import torch; `Demo.build` does. Every ``-small`` twin has the same
structure and trains on a CPU in seconds. The first dimension of every input is the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True, slots=True)
class Demo:
    """A model by name.

    module: the file in this package. size: the key of that file's ``SIZES``. parameters: roughly
    how many, for people (the trace counts them).
    """

    name: str
    title: str
    description: str
    parameters: str
    module: str
    size: str

    @property
    def build(self) -> Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]:
        """() -> (module, example inputs). Under ``torch.device("meta")`` it allocates nothing.

        The module's output is its scalar loss, so the backward starts there.
        """
        family = import_module(f"demo_models.{self.module}")
        return lambda: family.build(family.SIZES[self.size])


def _pair(name: str, title: str, description: str, parameters: str, small: str) -> dict[str, Demo]:
    twin = f"{name}-small"
    return {
        name: Demo(name, title, description, parameters, name, "real"),
        twin: Demo(twin, f"{title}, small", f"The structure of {name}, small enough for a CPU.", small, name, "small"),
    }


MODELS: dict[str, Demo] = {
    **_pair("gpt", "GPT", "Decoder-only language model: 24 blocks, width 1792, 1024 tokens.", "1.1 billion", "60 k"),
    **_pair(
        "llama",
        "Llama 3 8B",
        "Decoder-only language model: 32 blocks, width 4096, grouped-query attention, 2048 tokens.",
        "8.03 billion",
        "45 k",
    ),
    **_pair(
        "moe",
        "Mixture of experts",
        "Decoder-only language model: 12 blocks of 8 experts each, 2 to a token, of a fixed capacity.",
        "1.17 billion",
        "55 k",
    ),
    **_pair("bert", "BERT-large", "Transformer encoder: 24 blocks, width 1024, 512 tokens.", "367 million", "63 k"),
    **_pair("resnet50", "ResNet-50", "Residual convolutional network, 224 x 224 images.", "25.6 million", "34 k"),
    **_pair("inception", "Inception v3", "Convolutional network of parallel branches.", "23.8 million", "347 k"),
    **_pair(
        "gnmt",
        "GNMT",
        "LSTM translation model with attention, 2 + 2 layers unrolled over 15 steps.",
        "170 million",
        "16 k",
    ),
    **_pair(
        "rnnlm",
        "RNNLM",
        "LSTM language model, 2 layers of width 1500 unrolled over 20 steps.",
        "66 million",
        "7.7 k",
    ),
    **_pair(
        "transformer",
        "Transformer",
        "Encoder-decoder of 6 + 6 layers, width 512, 64 tokens.",
        "101 million",
        "52 k",
    ),
    **_pair(
        "nasnet", "NASNet-A", "Searched convolutional network, 22 cells, 331 x 331 images.", "88.8 million", "27 k"
    ),
    **_pair(
        "multimodal",
        "Multi-modal transformer",
        "Four transformer branches of 8 layers, concatenated before the head.",
        "408 million",
        "106 k",
    ),
    **_pair(
        "dlrm",
        "DLRM",
        "Recommendation model: seven dense branches and seven embedding tables, joined before the score.",
        "1.03 billion",
        "12 k",
    ),
    **_pair(
        "candle_uno",
        "CANDLE Uno",
        "Drug response: seven branches of fully connected layers, joined before the regression.",
        "584 million",
        "19 k",
    ),
}
"""Every demo by name."""
