"""What a rank held at its peak, by category: what `prof.export_memory_timeline("rank0.memory.json", device)` writes."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.formats.json_fields import Field

CATEGORIES = (
    "parameters", "optimizer states", "inputs", "temporaries", "activations", "gradients", "autograd", "not known",
)  # fmt: skip
"""In the order of the file's columns, after one that is always 0 (`torch.profiler._memory_profiler`)."""
COLUMNS = len(CATEGORIES) + 1
MAX_MOMENTS = 5_000_000
MOST_BYTES = 2.0**60


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """parts: category -> bytes at the moment when their sum was the largest, without those that are 0."""

    parts: dict[str, float]

    @property
    def nbytes(self) -> float:
        return sum(self.parts.values())


def is_timeline(value: object) -> bool:
    """Whether a parsed file is a memory timeline: [moments, bytes by category at each]."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, list) for part in value)


def memory_peak(value: object, where: str) -> MemoryPeak:
    """The peak of a memory timeline. Raises InvalidProblem."""
    moments, sizes = Field(value, f"{where}:").items(2, exactly=2)
    count = len(moments.value) if isinstance(moments.value, list) else 0
    peak: list[float] = []
    for row in sizes.items(MAX_MOMENTS, exactly=count):
        entries = [entry.number(-MOST_BYTES) for entry in row.items(COLUMNS, exactly=COLUMNS)][1:]
        held = [min(max(0.0, entry), MOST_BYTES) for entry in entries]
        if sum(held) > sum(peak):
            peak = held
    if not peak:
        sizes.refuse("a moment at which something is held")
    return MemoryPeak({name: size for name, size in zip(CATEGORIES, peak, strict=True) if size > 0})
