"""What cannot be traced is refused with the line of the user's file and the smallest change."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils import rnn

from explorer.tracing import trace_module
from solvers.errors import TraceError
from tests.explorer.tracing.models import BATCH, WIDTH, Function, trace

HERE = r"\(test_refusals.py, line \d+, in \S+\)"


def test_packed_sequences() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(WIDTH, WIDTH, batch_first=True)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return self.layer(packed)[0].data.sum()

    inputs = torch.randn(BATCH, 3, WIDTH), torch.tensor([3, 2])
    with pytest.raises(TraceError, match=rf"{HERE}.*leave out pack_padded_sequence"):
        trace_module(Packed(), inputs, name="tiny")


def test_flex_attention() -> None:
    def attend(h: Tensor) -> Tensor:
        parts = h.view(BATCH, 1, -1, WIDTH)
        return flex_attention(parts, parts, parts)

    with pytest.raises(TraceError, match=rf"{HERE}.*scaled_dot_product_attention"):
        trace(Function(attend))


def test_numpy() -> None:
    with pytest.raises(TraceError, match=f"{HERE}; use functions of torch"):
        trace(Function(lambda h: torch.from_numpy(h.detach().numpy())))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_script() -> None:
    with pytest.raises(TraceError, match=r"as it was before torch\.jit"):
        trace(torch.jit.script(nn.Linear(WIDTH, WIDTH)))


class OnlyInTraining(nn.Module):
    """Chooses rows by their values while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.layer(x)
        if self.training:
            h = h[h[:, 0] > 0]
        return h.sum()


def test_what_can_be_traced_for_inference_alone_says_so() -> None:
    with pytest.raises(TraceError, match=f"{HERE}.*its inference can be traced"):
        trace(OnlyInTraining())
    assert trace(OnlyInTraining(), training=False)
