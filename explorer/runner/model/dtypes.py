"""The floating dtypes that a run can have."""

from __future__ import annotations

import torch

from solvers.errors import RunError

DTYPES = {
    "float64": torch.float64, "float32": torch.float32, "fp32": torch.float32, "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16, "fp16": torch.float16, "float16": torch.float16,
}  # fmt: skip


def floating(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """torch's dtype for a name. Raises RunError."""
    if isinstance(dtype, str):
        if dtype not in DTYPES:
            raise RunError(f"unknown dtype {dtype!r}; expected one of {', '.join(DTYPES)}")
        return DTYPES[dtype]
    return dtype
