"""A module of two or more ranks started here, as one command."""

from __future__ import annotations

import sys
from pathlib import Path

PORT = "29511"


def torchrun_command(path: Path, ranks: int, module: str) -> list[str]:
    """Not --standalone: its rendezvous listens on all interfaces."""
    meet = ["--master-addr", "127.0.0.1", "--master-port", PORT, "--nproc-per-node", str(ranks)]
    return [sys.executable, "-m", "torch.distributed.run", *meet, "-m", module, str(path.absolute())]
