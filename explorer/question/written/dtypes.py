"""The dtypes that a model can be traced in, as people write them."""

from __future__ import annotations

from solvers.errors import InvalidProblem

NAMES = {
    "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16", "half": "fp16", "fp32": "fp32",
    "float32": "fp32", "float": "fp32",
}  # fmt: skip
"""What is written, with or without "torch." before it, and what it is called here."""


def parse_dtype(text: str) -> str:
    """ "bf16", "bfloat16" or "torch.bfloat16" -> "bf16". Raises InvalidProblem."""
    name = NAMES.get(text.strip().lower().removeprefix("torch."))
    if name is None:
        raise InvalidProblem(f"no dtype {text!r} to trace in; there are: bf16, fp16, fp32 (bfloat16, float16, float32)")
    return name
