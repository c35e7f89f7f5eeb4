"""What a rank could still use of memory."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch


def free_bytes(device: torch.device) -> float:
    """What is free on a GPU, or on the host of a CPU."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    pages = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return float(found[1]) * 1024 if found else pages
