"""Saved tensors in the host's memory: the same gradients, and fewer bytes on the device meanwhile."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from explorer.runner.engine.measure import CountedStorage
from explorer.runner.model.offloaded import Offloaded, leaving, offloading


class Layers(nn.Module):
    """Saves what it is given, views of one storage, an output that is changed in place, and parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = self.first(x).chunk(3, dim=-1)
        stored = torch.sigmoid(a * b)
        return self.second(torch.tanh(stored) * c).relu_().square().sum()  # type: ignore[no-any-return]


def gradients(model: nn.Module, x: Tensor, hosted: Offloaded | None, *, fetch: bool = True) -> list[Tensor]:
    model.zero_grad()
    if hosted is None:
        model(x).backward()
    else:
        with torch.autograd.graph.saved_tensors_hooks(hosted.pack, hosted.unpack):
            loss = leaving(model, x)
        hosted.leave()
        if fetch:
            hosted.fetch()
        loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def test_gradients_are_the_same_fetched_before_or_not() -> None:
    torch.manual_seed(1)
    model, x = Layers().double(), torch.randn(16, 8, dtype=torch.float64, requires_grad=True)
    whole = gradients(model, x, None)
    for fetch in (True, False):
        hosted = Offloaded((x, *model.parameters()))
        fetched = gradients(model, x, hosted, fetch=fetch)
        assert len(fetched) == 4
        assert all(torch.equal(a, b) for a, b in zip(whole, fetched, strict=True))
        assert hosted.copies
        assert all(copy.host is None for copy in hosted.copies)


def test_bytes_on_the_host_are_not_counted_until_they_come_back() -> None:
    x = torch.randn(1000, requires_grad=True)
    with CountedStorage([x]) as counted:
        hosted = Offloaded((x,))
        with torch.autograd.graph.saved_tensors_hooks(hosted.pack, hosted.unpack):
            loss = leaving(lambda: x.exp().exp().exp().sum())  # each saves its result: 4,000 bytes
        assert counted.now_bytes == 4 * 4000 + 4
        hosted.leave()
        away = counted.now_bytes
        hosted.fetch()
        assert counted.now_bytes - away == 3 * 4000
        assert away < 4000 + 100
        loss.backward()


def test_a_storage_goes_once_and_again_after_it_was_changed() -> None:
    hosted, whole = Offloaded(()), torch.arange(6.0)
    parts = [leaving(hosted.pack, part) for part in whole.chunk(2)]
    assert len(hosted.copies) == 1
    hosted.leave()
    whole.add_(1)
    assert [hosted.unpack(part).tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]
    assert hosted.unpack(leaving(hosted.pack, whole)).tolist() == [1, 2, 3, 4, 5, 6]
    assert len(hosted.copies) == 2


def test_only_what_chosen_calls_are_the_first_to_save_goes() -> None:
    """Each exp saves its result, and the product, which saves both, is the first to save neither."""
    traced = make_fx(lambda x: (x.exp() * x.exp()).sum())(torch.ones(4, 250))
    calls = [node for node in traced.graph.nodes if node.op == "call_function"]
    for number, node in enumerate(calls):
        node.meta["call"] = f"call {number}"
    sent: dict[tuple[int, bool], int] = {}
    for names in ({"call 0"}, {"call 0", "call 1"}, {"call 2"}):
        x = torch.ones(4, 250, requires_grad=True)
        hosted = Offloaded((x,))
        with torch.autograd.graph.saved_tensors_hooks(hosted.pack, hosted.unpack):
            loss = offloading(traced, names)(x)
        sent[len(names), "call 2" in names] = sum(len(copy.here) for copy in hosted.copies if copy.here is not None)
        hosted.leave()
        loss.backward()
        assert x.grad is not None
        assert torch.allclose(x.grad, torch.full_like(x, 2.0).exp() * 2)
    assert sent == {(1, False): 4000, (2, False): 8000, (1, True): 0}
