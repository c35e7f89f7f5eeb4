"""Starts the ranks of a bundle with torchrun's own code, and says how each of them ended.

    python -m explorer.runner.targets.launch RANKS MODULE BUNDLE

The same as `torchrun --standalone --nproc-per-node RANKS -m MODULE BUNDLE`, but that nothing listens on
other interfaces than the loopback, that a rank that fails is noticed at once, and that its exit code is reported
on stdout: ``@exit {"rank": 1, "code": -9}``, the first to fail first.
"""

from __future__ import annotations

import socket
import sys

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

from explorer.runner.start import contract
from explorer.runner.targets.failures import exit_line

MONITOR_INTERVAL_S = 0.1
FAILED = 1
LOOPBACK = "127.0.0.1"


def main(argv: list[str]) -> int:
    ranks, module, folder = int(argv[0]), argv[1], argv[2]
    if refusal := contract.broken():
        print(refusal, flush=True)
        return FAILED
    store = loopback_store()
    try:
        run(  # type: ignore[no-untyped-call]
            parse_args(  # type: ignore[no-untyped-call]
                [
                    "--rdzv-backend",
                    "static",
                    "--master-addr",
                    LOOPBACK,
                    "--master-port",
                    str(store.port),
                    "--nproc-per-node",
                    str(ranks),
                    "--max-restarts",
                    "0",
                    "--monitor-interval",
                    str(MONITOR_INTERVAL_S),
                    "-m",
                    module,
                    folder,
                ]
            )
        )
    except ChildFailedError as error:
        for rank, failure in sorted(error.failures.items(), key=lambda item: item[1].timestamp):
            _print_line(exit_line(rank, failure.exitcode))
        return FAILED
    return 0


def loopback_store() -> TCPStore:
    """What the ranks find one another by. Torch's own listens on every interface of the machine, and believes
    whoever comes; of the servers of one process it takes the one that is there for the port."""
    place = socket.socket()
    place.bind((LOOPBACK, 0))
    place.listen()
    port = place.getsockname()[1]
    return TCPStore(
        LOOPBACK, port, is_master=True, wait_for_workers=False, multi_tenant=True, master_listen_fd=place.detach()
    )


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
