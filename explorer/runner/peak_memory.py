"""The most memory that a rank held since a moment."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""What resets the peak of the resident size (man 5 proc, clear_refs)."""


@dataclass
class PeakMemory:
    """Bytes above what the process held when this was made: of the allocator on a GPU, resident on a CPU.

    A CPU's figure holds what allocators keep for later, so it is a little high for small models.
    """

    device: torch.device
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.device.type == "cuda":
            self.floor = float(torch.cuda.memory_allocated(self.device))
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        with suppress(OSError):  # not allowed in some containers: the peak is then that since the start
            _RESET.write_text(RESET_PEAK)
        self.floor = _resident("VmRSS")

    def peak(self) -> float:
        """Bytes; 0 where the system does not tell."""
        if self.device.type == "cuda":
            return float(torch.cuda.max_memory_allocated(self.device)) - self.floor
        return max(0.0, _resident("VmHWM") - self.floor)


def _resident(what: str) -> float:
    try:
        found = re.search(rf"^{what}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return float(found[1]) * 1024 if found else 0.0
