"""``python -m tests.zoo [NAME ...]``: trace each model in a process of its own and print a row for it, failures too."""

from __future__ import annotations

import subprocess
import sys

from tests.zoo.models import NAMES

LIMIT_S = 400
"""Wall seconds for one model, tracing and counting."""

HEAD = (
    "| model | trace, CPU s | resident, GiB | operators (forward) | parameters | products, GFLOP | FlopCounterMode |"
    " notes or why not |\n|---|---|---|---|---|---|---|---|"
)


def row(name: str) -> str:
    """Of the table; what a model that cannot be traced says, in its last column."""
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.zoo.one", name], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"| {name} | | | | | | | more than {LIMIT_S} s |"
    lines = [line for line in ran.stdout.splitlines() if line.startswith("| ")]
    message = (ran.stderr.strip().splitlines() or ["nothing"])[-1]
    return lines[-1] if lines else f"| {name} | | | | | | | ended with {ran.returncode}: {message[:200]} |"


def main(names: list[str]) -> None:
    print(HEAD, flush=True)
    for name in names:
        print(row(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(NAMES))
