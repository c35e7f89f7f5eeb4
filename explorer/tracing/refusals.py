"""Why a module cannot be traced, in one line: what torch says, the line of the user's file, the smallest change."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path

import torch

from explorer.tracing.fake import first_line

DATA_DEPENDENT = ("data-dependent", "data dependent", "DataDependent", "Could not guard", "unbacked")
"""How torch says that control flow or a shape depends on the values of a tensor."""

FIXED_SIZES = (
    "give each result a fixed size (a mask, or a fixed number of samples for each expert), or state how many rows such"
    " a selection takes (--expert-rows, expert_rows=): the tokens of an expert, the edges of a graph"
)
"""What to do about a shape that depends on values."""

CHANGES = (
    ("FlexAttention", "call torch.nn.functional.scaled_dot_product_attention there while tracing: FlexAttention has"
     " no gradient without a GPU"),
    ("must be tuple of ints,but got FakeTensor", "leave out pack_padded_sequence while tracing: every sample is then"
     " taken to be as long as the longest"),
    ("_pack_padded_sequence", "leave out pack_padded_sequence while tracing: every sample is then taken to be as long"
     " as the longest"),
    (".numpy() is not supported", "use functions of torch there: numpy needs values, and a trace has none"),
    ("ScriptModule", "give the module as it was before torch.jit.script or torch.jit.trace"),
    ("PackedParams", "give the module as it was before quantisation, in bf16 or fp16: quantised products are not"
     " traced"),
    ("quantized::", "give the module as it was before quantisation, in bf16 or fp16: quantised products are not"
     " traced"),
    ("targets should not be none", "a detection model in training needs its targets and chooses boxes by their values:"
     " trace its backbone, or with --inference"),
    ("Couldn't load custom C++ ops", "an operator of torchvision (nms, roi_align) is called, whose compiled part does"
     " not load beside this torch: trace the part of the model before it"),
)  # fmt: skip
"""What torch says -> the smallest change."""

BY_VALUE = "choose with torch.where in place of `if`, and keep sizes independent of values"

USER_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
TORCH = str(Path(torch.__file__).parent)
OWN = str(Path(__file__).parent)
INSTALLED = ("site-packages", "dist-packages")

Place = tuple[str, int, str]
"""File, line, function."""


def refusal(error: Exception) -> str:
    """Of what torch.export raised."""
    message = f"{type(error).__name__}: {error}"
    at = _where(_frames(message)) or _where(_raised(error))
    change = next((f"; {change}" for words, change in CHANGES if words in message), "")
    if any(words in message for words in DATA_DEPENDENT):
        return (
            "the forward depends on the values of a tensor (an `if` or a shape), which has no fixed operator"
            f" graph{at}; {BY_VALUE}; torch.export said: {first_line(error)}"
        )
    return f"torch.export could not trace it: {first_line(error)}{at}{change}"


def value_dependent(error: Exception) -> str:
    """Of a result whose size or value is in the values, met when the exported graph was run. The recorder leaves the
    module and the stack of the call on the error."""
    module = getattr(error, "module_path", "")
    reason = f"{first_line(error)} in {module}" if module else first_line(error)
    return (
        f"the shape or value of a result depends on the values of a tensor ({reason}), so the operators have no fixed"
        f" sizes{_where(_frames(getattr(error, 'stack_trace', '')))}; {FIXED_SIZES}"
    )


def _frames(trace: str) -> list[Place]:
    """The frames in a text, outermost first."""
    return [(frame["file"], int(frame["line"]), frame["function"]) for frame in USER_FRAME.finditer(trace)]


def _raised(error: BaseException) -> list[Place]:
    """The same of a traceback."""
    return [(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(error.__traceback__)]


def _where(frames: Sequence[Place]) -> str:
    """ " (model.py, line 12, in forward)": the innermost of a person's own frames, of another package's if there is
    none; "" without either. Frames of torch, of this package and of the standard library are nobody's."""
    library = str(Path(re.__file__).parents[1])
    others = [frame for frame in frames if not frame[0].startswith((TORCH, OWN, "<"))]
    own = [frame for frame in others if not _installed(frame[0]) and not frame[0].startswith(library)]
    packages = [frame for frame in others if _installed(frame[0])]
    for places in (own, packages):
        called = [frame for frame in places if frame[2] != "<module>"]
        if called:
            file, line, function = called[-1]
            return f" ({Path(file).name}, line {line}, in {function})"
    return ""


def _installed(file: str) -> bool:
    return any(part in file for part in INSTALLED)
