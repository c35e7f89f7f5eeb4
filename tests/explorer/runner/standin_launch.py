"""A launcher without torch: starts the ranks, ends the others when one fails, and says how they ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from explorer.runner.targets.failures import exit_line


def main(argv: list[str]) -> int:
    ranks, module, folder = int(argv[0]), argv[1], argv[2]
    command = [sys.executable, "-m", module, folder]
    started = [
        subprocess.Popen(command, env={**os.environ, "RANK": str(rank)}, start_new_session=True)
        for rank in range(ranks)
    ]
    codes: dict[int, int] = {}
    while len(codes) < ranks and not any(codes.values()):
        for rank, process in enumerate(started):
            if rank not in codes and (code := process.poll()) is not None:
                codes[rank] = code
        time.sleep(0.02)
    for process in started:
        if process.poll() is None:
            process.terminate()
    for rank, process in enumerate(started):
        codes.setdefault(rank, process.wait())
    for rank, code in codes.items():
        if code:
            print(exit_line(rank, code), flush=True)
    return int(any(codes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
