"""What a person says of the example that a model is traced with, as part of its name: "hf:gpt2,batch=4"."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from explorer.question.models.part_degrees import PartDegrees
from explorer.question.written.kinds import AUTO_DEGREE, AUTO_WORD
from solvers.errors import InvalidProblem
from solvers.problem.collectives import Axis

if TYPE_CHECKING:
    from torch import nn

    Made = tuple[nn.Module, dict[str, Any], tuple[str, ...]]
    """A module on meta, its inputs by name, notes on what was assumed."""
else:
    Made = tuple

MOST = 2**24
"""Beyond it is a typing error."""


@dataclass(frozen=True, slots=True)
class Example:
    """None: the model's own, or a default that a note states.

    batch: samples. sequence: tokens of a sample. image: pixels of a side. batch_dim: which dimension of the first
    input counts samples. expert_rows: how many rows an expert takes of the example (see `trace_module`).
    tensor_parallel: over how many devices each tensor is divided, AUTO_DEGREE to search. sequence_parallel: 0 where
    tokens are not. tensor_parallel_of: parts of the model that are divided over other numbers of devices, as
    `PartDegrees` reads them. context_parallel, expert_parallel: over how many devices tokens, or samples and experts,
    are divided: in place of tensors, or over so many inner groups, each of which divides tensors. expert_load: of the
    device of a group whose experts are chosen most, over the mean. redundant_experts: replicas of experts in every
    mixture beyond the first of each, placed by a file of counts, with the load that is left.
    """

    batch: int | None = None
    sequence: int | None = None
    image: int | None = None
    batch_dim: int | None = None
    expert_rows: int | None = None
    tensor_parallel: int | None = None
    sequence_parallel: int | None = None
    tensor_parallel_of: str | None = None
    context_parallel: int | None = None
    expert_parallel: int | None = None
    expert_load: float | None = None
    redundant_experts: int | None = None

    @property
    def axis(self) -> Axis:
        """What the members of its groups divide, the outer axis of two."""
        if (self.context_parallel or 1) > 1:
            return Axis.CONTEXT
        return Axis.EXPERT if (self.expert_parallel or 1) > 1 else Axis.TENSOR

    @property
    def inner_axis(self) -> Axis:
        """What the members of its inner groups divide: where groups divide tokens, samples and experts, or tensors."""
        both = self.axis is Axis.CONTEXT and (self.expert_parallel or 1) > 1
        return Axis.EXPERT if both else Axis.TENSOR

    @property
    def inner_degree(self) -> int:
        """Members of its inner groups; AUTO_DEGREE where that is to be searched."""
        inner = self.expert_parallel if self.inner_axis is Axis.EXPERT else self.tensor_parallel
        return inner if inner is not None else 1

    @property
    def degree(self) -> int:
        """Members of its groups, but for those of parts; AUTO_DEGREE where that is to be searched."""
        return self.inner_degree if self.axis is Axis.TENSOR else self.inner_degree * self.of_axis

    @property
    def of_axis(self) -> int:
        """Over how many its axis is divided, where that is not tensors; 1 where it is."""
        return (self.context_parallel if self.axis is Axis.CONTEXT else self.expert_parallel) or 1

    @property
    def outer_degree(self) -> int:
        """Inner groups of each of its groups, 1 where these divide one thing."""
        return self.of_axis if self.inner_degree > 1 else 1

    @property
    def samples(self) -> int | None:
        """Of the example: as many as the members that divide them, where nobody says how many."""
        divides = (self.expert_parallel or 1) > 1
        return self.expert_parallel if self.batch is None and divides else self.batch

    @property
    def devices_of_experts(self) -> int:
        """Over how many experts are divided, along their own axis or with tensors; 1 where they are not."""
        devices = self.expert_parallel or 1
        return devices if devices > 1 else self.inner_degree

    def check_replicas(self) -> None:
        """Raises InvalidProblem for redundant experts of which nothing says where they stand."""
        if not self.redundant_experts:
            return
        if Axis.EXPERT not in (self.axis, self.inner_axis):
            raise InvalidProblem("--redundant-experts is of groups that divide experts; add --expert-parallel N")
        if self.expert_load is None:
            raise InvalidProblem(
                "--redundant-experts are placed by how often each expert is chosen; add --expert-load FILE, a JSON list"
                " of tokens by expert"
            )

    def check_axes(self, model: str) -> None:
        """Raises InvalidProblem where groups would divide what they cannot at once."""
        flags = [axis.flag for axis in Axis if getattr(self, f"{axis.value}_parallel") not in (None, 1)]
        if len(flags) > 2:
            raise InvalidProblem(
                f"{model}: a group divides two of tokens, experts and tensors; leave out {', '.join(flags[:2])} or"
                f" {flags[2]}"
            )
        if self.axis is Axis.TENSOR:
            return
        if self.tensor_parallel_of is not None or self.tensor_parallel == AUTO_DEGREE:
            one = "--tensor-parallel-of" if self.tensor_parallel_of is not None else f"--tensor-parallel {AUTO_WORD}"
            raise InvalidProblem(
                f"{model}: {one} is of groups that divide tensors alone; leave out {self.axis.flag}, or give"
                " --tensor-parallel N"
            )


NAMES = tuple(field.name.replace("_", "-") for field in fields(Example))
"""As they are written: "batch-dim"."""

_PART = rf",(?:{'|'.join(NAMES)})=[^,=]*"
_WHOLE = re.compile(rf"(?P<name>.*?)(?P<parts>(?:{_PART})*)", re.DOTALL)


def split_example(model: str) -> tuple[str, Example]:
    """The name without what is said of the example, and that. Raises InvalidProblem for a value that is none."""
    match = _WHOLE.fullmatch(model)
    if match is None or not match["parts"]:
        return model, Example()
    values: dict[str, Any] = {}
    for part in match["parts"].removeprefix(",").split(","):
        key, _, value = part.partition("=")
        if key == "tensor-parallel-of":
            values["tensor_parallel_of"] = str(PartDegrees.parse(value))
            continue
        if (key, value) == ("tensor-parallel", AUTO_WORD):
            values["tensor_parallel"] = AUTO_DEGREE
            continue
        if key == "expert-load":
            values["expert_load"] = _load(model, value)
            continue
        least = 0 if key in ("batch-dim", "sequence-parallel", "redundant-experts") else 1
        if not value.isascii() or not value.isdigit() or not least <= int(value[:12]) <= MOST:
            raise InvalidProblem(f"{model}: {key} must be a whole number from {least} to {MOST:,}, found {value!r}")
        values[key.replace("-", "_")] = int(value)
    example = Example(**values)
    example.check_axes(model)
    return match["name"], example


def _load(model: str, written: str) -> float:
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,4})?", written) is None or float(written) < 1:
        raise InvalidProblem(f"{model}: expert-load is the largest load over the mean, 1 to 999, found {written!r}")
    return float(written)


def join_example(model: str, **fields: float | str | None) -> str:
    """``model`` with more said of its example; what is None is left as it is."""
    name, before = split_example(model)
    after = {
        field: getattr(before, field) if fields.get(field) is None else fields[field] for field in Example.__slots__
    }
    return _joined(name, after)


def of_degree(model: str, degree: int) -> str:
    """``model`` divided over so many devices, all of it; 1: as it is whole."""
    return divided_by(undivided(model), degree, in_parts(model)[2])


def of_parts(model: str, degree: int, parts: str | None) -> str:
    """The same, but for ``parts``, as `PartDegrees` reads them."""
    whole_tokens = parts is not None and not in_parts(model)[2]
    return join_example(
        of_degree(model, degree), tensor_parallel_of=parts, sequence_parallel=0 if whole_tokens else None
    )


def sizes_of(model: str) -> list[int]:
    """The sizes of the groups that a name asks for, ascending: 1 for what is whole, AUTO_DEGREE for a search."""
    example = split_example(model)[1]
    parts = () if example.tensor_parallel_of is None else PartDegrees.parse(example.tensor_parallel_of).parts
    return sorted({example.degree, *(size for _, size in parts)})


def undivided(model: str) -> str:
    """``model`` without what its name says of how tensors are divided."""
    name, example = split_example(in_parts(model)[0])
    values = {field: getattr(example, field) for field in Example.__slots__}
    axes = ("tensor_parallel_of", "context_parallel", "expert_parallel", "expert_load", "redundant_experts")
    return _joined(name, values | dict.fromkeys(axes))


def says_degree(model: str) -> bool:
    """Whether a name says how tensors are divided; not where it cannot be read, as in a file from elsewhere."""
    try:
        return undivided(model) != model
    except InvalidProblem:
        return False


def divided_by(model: str, degree: int, tokens: int) -> str:
    """``model``, of which nothing is said of that yet, divided over so many devices (1: whole), and its tokens, or
    not (0)."""
    if degree == 1:
        return model
    return join_example(model, tensor_parallel=degree, sequence_parallel=None if tokens else 0)


def in_parts(model: str) -> tuple[str, int, int]:
    """A model's name without over how many devices tensors are divided where it does not say that of a part; over how
    many they are (1: whole), and whether tokens are, 1 or 0. Raises InvalidProblem."""
    name, example = split_example(model)
    values = {field: getattr(example, field) for field in Example.__slots__}
    degree, tokens = values.pop("tensor_parallel"), values.pop("sequence_parallel")
    return _joined(name, values), degree or 1, 1 if tokens is None else min(tokens, 1)


def searches_degrees(model: str) -> bool:
    """Whether a name leaves it open over how many devices tensors are divided."""
    return split_example(model)[1].tensor_parallel == AUTO_DEGREE


def _joined(name: str, values: dict[str, Any]) -> str:
    written = {field: value for field, value in values.items() if value is not None}
    if "expert_load" in written:
        written["expert_load"] = f"{written['expert_load']:g}"
    if written.get("tensor_parallel") == AUTO_DEGREE:
        written["tensor_parallel"] = AUTO_WORD
    return "".join([name, *(f",{field.replace('_', '-')}={value}" for field, value in written.items())])
