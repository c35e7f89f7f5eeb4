"""Sizes, rates, times and dtypes as people write them: "16GiB", "25GB/s", "10us", "bf16"."""

from __future__ import annotations

import math
import re

from solvers.errors import InvalidProblem

BYTES = {"": 1.0, "B": 1.0}
for _power, _letter in enumerate("KMGTP", 1):
    BYTES |= {f"{_letter}B": 1000.0**_power, _letter: 1000.0**_power, f"{_letter}IB": 1024.0**_power}
"""Bytes per unit, in capitals. GB are decimal, GiB binary, as on data sheets."""

SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
"""Seconds per unit."""

_NUMBER = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(.*?)\s*$")
NAMES = {
    "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16", "half": "fp16", "fp32": "fp32",
    "float32": "fp32", "float": "fp32",
}  # fmt: skip
"""What is written, with or without "torch." before it, and what it is called here."""


def parse_bytes(text: str) -> float:
    """ "16GiB" -> 17179869184; "80GB" -> 8e10; "1.5e9" -> 1.5e9. More than 0. Raises InvalidProblem."""
    return _parse(text, BYTES, "a size such as 16GiB, 80GB or 1.5e9", capitals=True)


def parse_bandwidth(text: str) -> float:
    """ "25GB/s" -> 2.5e10 bytes per second. Bits are refused. More than 0. Raises InvalidProblem."""
    expected = "a bandwidth in bytes such as 25GB/s or 2.5e10"
    size = text.strip()
    size = size[:-2] if size.endswith("/s") else size
    if re.search(r"(b|bit|bps)$", size):
        raise InvalidProblem(f"{text!r} is in bits: expected {expected} (8 bits are 1 byte)")
    return _parse(size, BYTES, expected, capitals=True, shown=text)


def parse_seconds(text: str) -> float:
    """ "10us" -> 1e-5; "1.5ms"; "0" -> 0. Raises InvalidProblem."""
    return _parse(text, SECONDS, "a time such as 10us, 1.5ms or 2s", zero=True)


def _parse(
    text: str,
    units: dict[str, float],
    expected: str,
    *,
    capitals: bool = False,
    zero: bool = False,
    shown: str | None = None,
) -> float:
    match = _NUMBER.match(text)
    unit = match[2] if match else ""
    unit = unit.upper() if capitals else unit
    if match is None or unit not in units:
        raise InvalidProblem(f"expected {expected}, found {(shown or text)!r}")
    value = float(match[1]) * units[unit]
    if not math.isfinite(value) or (value <= 0 and not zero):
        raise InvalidProblem(f"expected {expected}, {'finite' if zero else 'more than 0'}, found {(shown or text)!r}")
    return value


def parse_dtype(text: str) -> str:
    """ "bf16", "bfloat16" or "torch.bfloat16" -> "bf16". Raises InvalidProblem."""
    name = NAMES.get(text.strip().lower().removeprefix("torch."))
    if name is None:
        raise InvalidProblem(f"no dtype {text!r} to trace in; there are: bf16, fp16, fp32 (bfloat16, float16, float32)")
    return name
