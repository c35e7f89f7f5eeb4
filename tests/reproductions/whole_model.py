"""The original model in one piece, with the values that a run in parts has: what runs are compared with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from explorer.runner.model.construct import Built, construct
from explorer.runner.model.optimizers import floating

DROPPING = frozenset(
    {
        "dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "alpha_dropout_",
        "feature_dropout", "feature_dropout_", "feature_alpha_dropout", "feature_alpha_dropout_", "native_dropout",
    }
)  # fmt: skip
"""Functions whose second argument is the share to drop."""

ATTENTION = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}
"""Place of dropout_p."""

RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
"""The share to drop between layers is their only argument that is a float."""


class WholeModel:
    """``model(*samples)`` runs the module itself on its flat tensor inputs and gives its tensor outputs, flat.

    parameters: by name, of tied ones the first, as `Held.parameters` of all names.
    """

    def __init__(self, built: Built, *, without_dropout: bool) -> None:
        self.module = built.module
        self.parameters: dict[str, nn.Parameter] = dict(built.module.named_parameters())
        self._leaves, self._shape = pytree.tree_flatten((built.args, built.kwargs))
        self._without_dropout = without_dropout

    def __call__(self, *samples: Tensor) -> tuple[Tensor, ...]:
        # Copies: a model that changes its input in place must not change the mini-batch.
        given = iter([sample.clone() for sample in samples])
        leaves = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._shape)
        with NoDropout() if self._without_dropout else nullcontext():
            result = self.module(*args, **kwargs)
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        return tuple({id(output): output for output in outputs}.values())


def whole_model(
    reference: str,
    *,
    seed: int,
    dtype: torch.dtype | str | None,
    device: torch.device | str,
    training: bool = True,
    without_dropout: bool = False,
    allow_model: bool = False,
) -> WholeModel:
    """The module with all parameters as `hold` gives them, bit by bit. Raises RunError."""
    built = construct(reference, wanted=None, seed=seed, allow_model=allow_model)
    target = floating(dtype)

    def brought(tensor: Tensor) -> Tensor:
        wanted = target if target is not None and tensor.is_floating_point() else tensor.dtype
        return tensor.to(device=device, dtype=wanted)

    built.module._apply(brought)
    for part in built.module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, Tensor):
                setattr(part, name, brought(value))
    built.module.train(training)
    return WholeModel(built, without_dropout=without_dropout)


class NoDropout(TorchFunctionMode):
    """Nothing is dropped, whether a module or a function would."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in DROPPING:
            args, kwargs = _with_zero(args, kwargs, 1, "p")
        elif name in ATTENTION:
            args, kwargs = _with_zero(args, kwargs, ATTENTION[name], "dropout_p")
        elif name in RECURRENT:
            args = tuple(0.0 if isinstance(argument, float) else argument for argument in args)
        return func(*args, **kwargs)


def _with_zero(
    args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if len(args) > place:
        return (*args[:place], 0.0, *args[place + 1 :]), kwargs
    return args, {**kwargs, name: 0.0}
