"""Where the tensors of a module come from while it is made, and making it with only some of them in memory.

A module is made twice: once without memory, to see which operator made each parameter and from what
(`survey`), and then with the parameters that are wanted, and all that flows into them (`Making`). Both, and
making the whole, draw the same random numbers: before each random operator the generator is seeded with its
number, so that values do not depend on what takes memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

META = torch.device("meta")
CPU = torch.device("cpu")

SMALL = 4096
"""Elements of the largest tensor that is made for real in a survey, so that code may look at its values (a list
of rates, a few sizes)."""


class Differs(Exception):
    """The module was not made by the same operators again."""


class Seeding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Makes everything on the CPU and for real, each random operator from a seed of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seed = seed
        self.drawn = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunction():  # see the tensors as they are
            return self._dispatch(func, args, kwargs or {})

    def _dispatch(self, func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        kwargs = pytree.tree_map_only(torch.device, lambda device: device if device == META else CPU, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            seed = mixed(self.seed, self.drawn)
            self.drawn += 1
            for generator in (torch.default_generator, kwargs.get("generator")):
                if isinstance(generator, torch.Generator):
                    generator.manual_seed(seed)
        if func.is_view or func is torch.ops.aten.scalar_tensor.default:  # how often depends on where a tensor is
            return func(*args, **kwargs)
        return self.call(func, args, kwargs)

    def call(self, func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        return func(*args, **kwargs)

    def truncated(
        self, tensor: Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator | None = None
    ) -> Tensor:
        """nn.init.trunc_normal_, which draws as often as values fall outside: here one draw of its own."""
        generator = torch.Generator().manual_seed(mixed(self.seed, self.drawn))
        self.drawn += 1
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return _TRUNCATED(tensor, mean, std, a, b, generator=generator)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Tensors are made in this mode."""
        with patch.object(nn.init, "_no_grad_trunc_normal_", self.truncated), AllReal(), self:
            yield


class AllReal(TorchFunctionMode):
    """Tensors without memory say that they have some: initialisers would pass them by, and others of which the
    values are wanted would be drawn with other numbers."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> Any:
        if func == _IS_META:
            return False
        result = func(*args, **(kwargs or {}))
        return CPU if func == _DEVICE and result == META else result


_TRUNCATED = nn.init._no_grad_trunc_normal_
_IS_META, _DEVICE = (vars(torch._C.TensorBase)[name].__get__ for name in ("is_meta", "device"))


def mixed(seed: int, number: int) -> int:
    """32 bits that look random (splitmix64): a CPU's generator takes no more."""
    x = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xD1342543DE82EF95) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return (x ^ (x >> 31)) >> 32


@dataclass
class Survey:
    """operators: what ran, in order. of: number of an operator that made a storage -> those whose storages flowed
    into it. parameters: name -> the operator that made it, -1 if it was there before; used: those that made
    buffers, other tensors of the module, and example inputs."""

    operators: list[str] = field(default_factory=list)
    of: dict[int, set[int]] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    @property
    def foreign(self) -> frozenset[str]:
        """Parameters that were not made by an operator."""
        return frozenset(name for name, number in self.parameters.items() if number < 0)

    def spared(self, wanted: Collection[str]) -> frozenset[int]:
        """Operators whose results need not be there: they serve only parameters that are not wanted."""
        others = {number for name, number in self.parameters.items() if name not in wanted}
        makers = {number for name, number in self.parameters.items() if name in wanted}
        return frozenset(self._into(others) - self._into(makers | self.used))

    def _into(self, numbers: Iterable[int]) -> set[int]:
        """With all that flows into them."""
        todo, reached = list(numbers), set(numbers)
        while todo:
            new = self.of.get(todo.pop(), set()) - reached
            reached |= new
            todo += new
        return reached


class Surveying(Seeding):  # type: ignore[no-untyped-call]
    """Makes large tensors without memory, and notes what flows where. Keeps all tensors, so that no storage is
    taken for another."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.survey = Survey()
        self._born: dict[int, int] = {}
        self._all: list[Tensor] = []

    def call(self, func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        number = len(self.survey.operators)
        self.survey.operators.append(str(func))
        read = {self.born(tensor) for tensor in _tensors((args, kwargs))}
        written = {self.born(tensor) for tensor in _written(func, args, kwargs)}
        result = self._run(func, args, kwargs)
        for tensor in _tensors(result):
            key = _storage(tensor)
            if key not in self._born:
                self._born[key] = number
                self._all.append(tensor)
                written.add(number)
        for target in written:
            self.survey.of.setdefault(target, set()).update(read - {target})
        return result

    @staticmethod
    def _run(func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if any(tensor.is_meta for tensor in _tensors((args, kwargs))):
            return on_meta(func, args, kwargs)
        if _is_factory(func):
            empty = on_meta(func, args, kwargs)
            if any(tensor.numel() > SMALL for tensor in _tensors(empty)):
                return empty
        return func(*args, **kwargs)

    def born(self, tensor: Tensor) -> int:
        """The operator that made its storage; -1: it was there before."""
        key = _storage(tensor)
        if key not in self._born:
            self._born[key] = -1
            self._all.append(tensor)
        return self._born[key]

    def finish(self, module: nn.Module, inputs: Iterable[Tensor]) -> Survey:
        for name, parameter in module.named_parameters():
            self.survey.parameters[name] = self.born(parameter)
        for part in module.modules():
            for value in (*vars(part).values(), *part._buffers.values()):
                self.survey.used |= {self.born(x) for x in _tensors(value) if not isinstance(x, nn.Parameter)}
        self.survey.used |= {self.born(tensor) for tensor in inputs}
        return self.survey


class Making(Seeding):  # type: ignore[no-untyped-call]
    """Makes everything but the results of the operators ``spared``. Raises Differs if other operators run."""

    def __init__(self, seed: int, survey: Survey, spared: frozenset[int]) -> None:
        super().__init__(seed)
        self.operators, self.spared = survey.operators, spared
        self.ran = 0

    def call(self, func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        number = self.ran
        self.ran += 1
        if number >= len(self.operators) or self.operators[number] != str(func):
            raise Differs(f"operator {number} was another one the second time: {func}")
        if args and isinstance(args[0], Tensor) and args[0].is_meta and _only_fills(func):
            return args[0]
        if number in self.spared or any(tensor.is_meta for tensor in _tensors((args, kwargs))):
            if any(not tensor.is_meta for tensor in _written(func, args, kwargs)):
                raise Differs(f"operator {number} ({func}) writes what is wanted from what is not")
            return on_meta(func, args, kwargs)
        return func(*args, **kwargs)


def on_meta(func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The result without memory."""

    def without(tensor: Tensor) -> Tensor:
        return tensor if tensor.is_meta else tensor.detach().to(META)

    args, kwargs = pytree.tree_map_only(Tensor, without, (args, kwargs))
    if any(argument.name == "device" for argument in func._schema.arguments):
        kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"} | {"device": META}
    return func(*args, **kwargs)


def _is_factory(func: OpOverload) -> bool:
    """Whether the size of its result depends on its arguments, not on the tensors that it reads."""
    return any(argument.name == "device" for argument in func._schema.arguments) and "_to_copy" not in str(func)


def _only_fills(func: OpOverload) -> bool:
    """Whether it changes nothing but the values of its first argument."""
    return func._schema.name.endswith("_") and torch.Tag.inplace_view not in func.tags


def _tensors(value: object) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _written(func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> list[Tensor]:
    named = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    writes = {a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    return _tensors([value for name, value in named.items() if name in writes])


def _storage(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except NotImplementedError:  # a sparse tensor has none
        return -id(tensor)
