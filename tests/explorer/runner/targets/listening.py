"""Ran as a rank: says on which addresses it and its launcher listen, as /proc/net/tcp lists them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch.distributed as dist


def addresses() -> list[str]:
    """Local addresses, in hexadecimal, of the sockets of this process and its parent that others can connect to."""
    own = set()
    for process in (os.getpid(), os.getppid()):
        for handle in Path(f"/proc/{process}/fd").iterdir():
            target = os.readlink(handle) if handle.is_symlink() else ""
            if target.startswith("socket:["):
                own.add(target[len("socket:[") : -1])
    hosts = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in own:
                hosts.append(local.partition(":")[0])
    return hosts


if __name__ == "__main__":
    dist.init_process_group("gloo")
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, dist.get_rank())
    Path(sys.argv[1], f"{dist.get_rank()}.txt").write_text("\n".join(addresses()), encoding="ascii")
    dist.barrier()
    dist.destroy_process_group()
