"""The job that runs a plan on a Ray cluster: one actor a rank, each with a process beside it.

    python -m explorer.runner.targets.ray_driver --ranks 2 --hosts 0 --module explorer.runner.rank --wait 60

It runs on the cluster, in the unpacked package (`ray_package`), and is the only file that imports ray. What it
prints is all that comes back (`ray_log`): rank 0's progress, everybody's log, and the result or a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.progress import MARK as PROGRESS
from explorer.runner.bundles.request import Backend, RunRequest, read_request, request_json
from explorer.runner.targets.failures import exit_line
from explorer.runner.targets.ray_log import JobFailure, clean_line, failure_line, rank_failure_line, result_lines
from explorer.runner.targets.ray_package import BUNDLE
from explorer.runner.targets.ray_ranks import Look, RankProcess
from explorer.words.text import first_line
from solvers.errors import PlacementError, RunError
from solvers.formats.json_text import dump_json, parse_json

POLL_S = 0.2
GRACE_S = 3.0
"""How long the others have to say why they end, too, once a rank has failed."""
ANSWER_S = 30.0
"""An actor that says nothing for so long is lost."""
MAX_LOG_CHARS = 8 * 2**20
MAX_PROGRESS = 4096


class JobError(Exception):
    """Ends the job; carries what is reported of it."""

    def __init__(self, reason: str, status: RunStatus = RunStatus.FAILED) -> None:
        super().__init__(reason)
        self.failure = JobFailure(status, reason)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an actor is. gpus: their numbers on the host, given to it alone."""

    node: str
    address: str
    gpus: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job. Returns the exit status: 0 only with a result."""
    parser = argparse.ArgumentParser(prog="ray_driver")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--hosts", type=int, required=True, help="spread over so many hosts; 0: as the cluster likes")
    parser.add_argument("--module", required=True, help="what each rank runs")
    parser.add_argument("--wait", type=float, required=True, help="seconds until the ranks must have found room")
    arguments = parser.parse_args(argv)
    relay = Relay()

    def work() -> int:
        request = read_request(parse_json((Path(BUNDLE) / "request.json").read_bytes(), "request.json"))
        return _run(arguments.ranks, arguments.hosts, arguments.module, arguments.wait, request, relay)

    return drive(work, lambda failure: relay.own(failure_line(failure)))


def drive(work: Callable[[], int], report: Callable[[JobFailure], object]) -> int:
    """What the drivers of all kinds of work do: end as on any other way out when asked to, and say why they give up.
    Returns the exit status: 0 only with all that was asked for."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        return work()
    except JobError as error:
        report(error.failure)
    except PlacementError as error:
        report(JobFailure(RunStatus.FAILED, str(error)))
    except Exception as error:
        traceback.print_exc()
        reason = clean_line(" ".join(str(error).split()))[:500]
        report(JobFailure(RunStatus.FAILED, f"the job failed: {type(error).__name__}: {reason}"))
    return 1


def connected() -> ModuleType:
    """The module ray, connected to the cluster that this job runs on."""
    import ray

    ray.init(log_to_driver=False, logging_level=logging.WARNING)
    return ray


class Relay:
    """Prints what ranks print, so that none of it can pass for a line of ours, and never more than MAX_LOG_CHARS."""

    def __init__(self) -> None:
        self._printed = 0

    def own(self, line: str) -> None:
        """A line of ours."""
        sys.stdout.write(line.encode("utf-8", "replace").decode() + "\n")
        sys.stdout.flush()

    def progress(self, phase: str) -> None:
        self.own(PROGRESS + dump_json({"phase": phase, "done": 0, "of": 0}))

    def lines(self, rank: int, lines: Sequence[str]) -> None:
        for i, line in enumerate(lines):
            if PROGRESS in line:
                # of many at once the last one says it all
                last = not any(later.startswith(PROGRESS) for later in lines[i + 1 :])
                if rank == 0 and last and line.startswith(PROGRESS) and len(line) <= MAX_PROGRESS:
                    self.own(line)
            else:
                self._log(line if rank == 0 and not line.startswith("@") else f"[rank {rank}] {line}")

    def _log(self, line: str) -> None:
        before, self._printed = self._printed, self._printed + len(line) + 1
        if self._printed <= MAX_LOG_CHARS:
            self.own(line)
        elif before <= MAX_LOG_CHARS:
            self.own("(the log was too long: the rest is left out)")


def _run(ranks: int, hosts: int, module: str, wait_s: float, request: RunRequest, relay: Relay) -> int:
    deadline = time.monotonic() + request.time_limit_s
    ray = connected()
    resolved = _resolved(request, ranks, ray.cluster_resources().get("GPU", 0.0))
    relay.progress("waiting for the cluster")
    actors: list[Any] = []
    group = _room(ray, ranks, hosts, resolved, min(wait_s, request.time_limit_s))
    try:
        actors = _actors(ray, group, ranks, hosts, resolved)
        relay.progress("starting")
        places = _get(ray, [actor.place.remote() for actor in actors])
        order = by_host([place.node for place in places])
        actors, places = [actors[i] for i in order], [places[i] for i in order]
        port = _get(ray, [actors[0].free_port.remote()])[0]
        text = dump_json(request_json(resolved))
        variables = environments(places, port, resolved)
        _get(ray, [actor.start.remote(module, text, env) for actor, env in zip(actors, variables, strict=True)])
        return _follow(ray, actors, relay, deadline, request.time_limit_s)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with contextlib.suppress(Exception):  # the job ends anyhow, and with it every actor and its process
            ray.get([actor.end.remote() for actor in actors], timeout=2.0)
            ray.util.remove_placement_group(group)


def _resolved(request: RunRequest, ranks: int, gpus: float) -> RunRequest:
    """The request with its backend decided for all hosts alike."""
    if request.backend is not Backend.AUTO:
        return request
    return replace(request, backend=Backend.CUDA if gpus >= ranks else Backend.CPU)


def shares(ranks: int, hosts: int) -> list[int]:
    """How many ranks go into each bundle of the placement group: one each, or spread evenly over ``hosts``."""
    if hosts == 0:
        return [1] * ranks
    used = min(hosts, ranks)
    return [ranks // used + (i < ranks % used) for i in range(used)]


def by_host(nodes: Sequence[str]) -> list[int]:
    """Positions in ``nodes`` so that equal ones are together, in the order in which they come first."""
    return sorted(range(len(nodes)), key=lambda i: (nodes.index(nodes[i]), i))


def environments(places: Sequence[Place], port: int, request: RunRequest) -> list[dict[str, str]]:
    """What torchrun would tell each rank, places[0] being rank 0's. All GPUs of its peers on a host are visible to a
    rank, in the order of the local ranks, so that the ranks of a host can reach each other's memory."""
    variables = []
    nodes = list(dict.fromkeys(place.node for place in places))
    for rank, place in enumerate(places):
        peers = [other for other in range(len(places)) if places[other].node == place.node]
        gpus = [gpu for peer in peers for gpu in places[peer].gpus]
        alone = len(nodes) == 1
        own = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(places)),
            "LOCAL_RANK": str(peers.index(rank)),
            "LOCAL_WORLD_SIZE": str(len(peers)),
            "GROUP_RANK": str(nodes.index(place.node)),
            "MASTER_ADDR": "127.0.0.1" if alone else places[0].address,
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": str(request.threads),
            "CUDA_VISIBLE_DEVICES": ",".join(gpus) if request.backend is Backend.CUDA else "",
        }
        if alone and os.path.isdir("/sys/class/net/lo"):
            own["GLOO_SOCKET_IFNAME"] = "lo"  # ranks of one host need no other interface
        variables.append(own)
    return variables


def _room(ray: ModuleType, ranks: int, hosts: int, request: RunRequest, wait_s: float) -> Any:
    """A placement group for all ranks. Raises JobError if the cluster has no room for them."""
    gpu = 1 if request.backend is Backend.CUDA else 0
    each = {"CPU": request.threads, **({"GPU": gpu} if gpu else {})}
    bundles = [{key: value * share for key, value in each.items()} for share in shares(ranks, hosts)]
    group = ray.util.placement_group(bundles, strategy="STRICT_SPREAD" if hosts else "PACK")
    if group.wait(timeout_seconds=wait_s):
        return group
    ray.util.remove_placement_group(group)
    total, free = ray.cluster_resources(), ray.available_resources()
    alive = sum(node["Alive"] for node in ray.nodes())
    needs = f"{request.threads} CPU{'' if request.threads == 1 else 's'}{' and a GPU' if gpu else ''}"
    over = f" spread over {hosts} hosts" if hosts else ""
    raise JobError(
        f"the cluster found no room for {ranks} ranks of {needs}{over} within {wait_s:g} s: it has"
        f" {total.get('CPU', 0):g} CPUs ({free.get('CPU', 0):g} free), {total.get('GPU', 0):g} GPUs"
        f" ({free.get('GPU', 0):g} free) on {alive} host{'' if alive == 1 else 's'}"
    )


def _actors(ray: ModuleType, group: Any, ranks: int, hosts: int, request: RunRequest) -> list[Any]:
    class Rank(RankProcess):
        def place(self) -> Place:
            node = ray.get_runtime_context().get_node_id()
            return Place(node, ray.util.get_node_ip_address(), tuple(str(gpu) for gpu in ray.get_gpu_ids()))

    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    owner = [bundle for bundle, share in enumerate(shares(ranks, hosts)) for _ in range(share)]
    remote = ray.remote(Rank)
    return [
        remote.options(
            num_cpus=request.threads,
            num_gpus=1 if request.backend is Backend.CUDA else 0,
            max_restarts=0,
            scheduling_strategy=strategy(group, placement_group_bundle_index=bundle),
        ).remote()
        for bundle in owner
    ]


def _follow(ray: ModuleType, actors: list[Any], relay: Relay, deadline: float, limit_s: float) -> int:
    """Relay until all ranks have ended, or one has failed and the others had time to say so, too."""
    codes: dict[int, int] = {}
    failed_s: float | None = None
    while len(codes) < len(actors) and (failed_s is None or time.monotonic() < failed_s + GRACE_S):
        running = [rank for rank in range(len(actors)) if rank not in codes]
        for rank, look in zip(
            running, _get(ray, [actors[rank].look.remote() for rank in running], running), strict=True
        ):
            _report(rank, look, relay)
            if look.code is not None:
                codes[rank] = look.code
        if failed_s is None and any(codes.values()):
            failed_s = time.monotonic()
        if time.monotonic() > deadline:
            raise JobError(f"ended at its time limit, after {limit_s:g} s", RunStatus.TIME_LIMIT)
        time.sleep(POLL_S)
    if codes.get(0) == 0:
        return _finish(ray, actors[0], relay, any(codes.values()))
    return 1


def _report(rank: int, look: Look, relay: Relay) -> None:
    relay.lines(rank, look.lines)
    if look.failure:
        relay.own(rank_failure_line(rank, look.failure))
    if look.code:
        relay.own(exit_line(rank, look.code))


def _finish(ray: ModuleType, first: Any, relay: Relay, failed: bool) -> int:
    text = _get(ray, [first.result.remote()])[0]
    if not text:
        raise JobError("rank 0 ended without a result")
    try:
        lines = result_lines(text)
    except RunError as error:
        raise JobError(str(error)) from None
    for line in lines:
        relay.own(line)
    return 1 if failed else 0


def _get(ray: ModuleType, references: list[Any], ranks: Sequence[int] | None = None) -> list[Any]:
    """The answers of actors. Raises JobError for the first that is lost. ranks: theirs, if not 0, 1, ..."""
    answers = []
    for position, reference in enumerate(references):
        rank = position if ranks is None else ranks[position]
        try:
            answers.append(ray.get(reference, timeout=ANSWER_S))
        except ray.exceptions.GetTimeoutError:
            raise JobError(f"the host of rank {rank} does not answer") from None
        except ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(getattr(error, "cause", None), Exception) else error
            raise JobError(f"rank {rank} could not be started: {type(cause).__name__}: {first_line(cause)}") from None
        except ray.exceptions.RayError as error:
            raise JobError(f"rank {rank} was lost with its host or actor: {first_line(error)}") from None
    return answers


def _stop(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def leave(main: Callable[[], int]) -> NoReturn:
    """Run a driver and end its process at once. Ray's own way out takes three seconds, after which a job that was asked
    to stop is killed."""
    try:
        code = main()
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main)  # the ranks have ended by then, and their room is given back
