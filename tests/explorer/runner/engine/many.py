"""A launch that runs many plans: ``many FOLDER PROCESSES``. Torch is imported and every model traced once; then
the process divides, and every part of it is a rank.

FOLDER/cases.json lists cases [name, ranks, plan file, request, a fault to plant in the engine ("": none)]; they are
run one after the other, each on processes 0 to ranks - 1, and process 0 writes FOLDER/results.json: name -> the
agreement with the whole model, and, where it is asked for, under "stages" that with the model computed by stages.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from explorer.runner.bundles.outcome import Way
from explorer.runner.bundles.request import RunRequest, read_request
from explorer.runner.bundles.result_json import outcome_text
from explorer.runner.engine import machine as machines
from explorer.runner.engine.gather import gather
from explorer.runner.engine.machine import Machine, make_machine
from explorer.runner.engine.measure import measure, operator_seconds
from explorer.runner.engine.shards import Shards
from explorer.runner.model.exchanges import ring, routed
from explorer.runner.model.exchanges.group import Exchanged, exchange, loss_of_classes, loss_of_rows
from explorer.runner.model.program import Program
from explorer.runner.verifying.verify import verify
from explorer.tracing.captured import Value
from solvers.formats.plan_json import PlanFile, read_plan
from solvers.problem.collectives import KINDS, PARTIAL

DEVICE = torch.device("cpu")


def main(folder: Path, cases: list[Any], process: int) -> None:
    results: dict[str, Any] = {}
    for number, (name, ranks, plan, request, fault) in enumerate(cases):
        if process >= ranks:
            continue
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet{number}", rank=process, world_size=ranks)
        results[name] = run(folder / plan, request, process, ranks, FAULTS[fault])
        dist.destroy_process_group()
    if process == 0:
        (folder / "results.json").write_text(json.dumps(results))


def run(plan: Path, given: dict[str, Any], rank: int, ranks: int, spoil: Callable[[Machine], None]) -> dict[str, Any]:
    request = read_request(given)
    file = read_plan(plan.read_bytes(), str(plan))

    def made() -> Machine:
        machine = make_machine(file, request, rank, ranks, DEVICE)
        spoil(machine)
        return machine

    machine = made()
    held: list[Any] = [None] * ranks
    dist.all_gather_object(held, sum(p.numel() * p.element_size() for p in machine.held.parameters.values()))
    sizes = {name: value.nbytes for name, value in whole_sizes(machine).items()}
    compared = {"segments": len(machine.script.segments), "bytes": held, "whole_bytes": sum(sizes.values())}
    if machine.shards:
        compared["sent"], compared["states"] = sent(machine)
        machine = made()
    elif machine.program.divided is not None:
        compared["exchanged"], compared["axes"] = exchanged(machine)
        machine = made()
    if request.operators:
        measured = measure(machine, request)
        times = operator_seconds(machine, file.problem.graph) if machine.program.divided is None else {}
        outcome = gather(machine, request, measured, None, [], False, times)
        compared["outcome"] = outcome_text(outcome) if outcome is not None else ""
        machine = made()
    whole = verify(machine, file.reference, file.problem, replace(request, verify_by=Way.WHOLE))
    if request.verify_by is Way.STAGES:
        compared["stages"] = asdict(verify(made(), file.reference, file.problem, request))
    return compared | asdict(whole)


CALLS = ("allreduce_", "_allgather_base_", "_reduce_scatter_base_", "alltoall_base_")
"""What torch calls the kinds of collectives, in the order of KINDS."""


class Collectives(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what torch is asked for, by kind: how often, and what is sent round a ring of all but all-reduces."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.times = dict.fromkeys(KINDS, 0)
        self.sent_bytes = dict.fromkeys(KINDS, 0.0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        space, _, name = func._schema.name.partition("::")
        if space == "c10d" and name in CALLS:
            kind = KINDS[CALLS.index(name)]
            self.times[kind] += 1
            if name in CALLS[1:3]:  # whole and share, in either order
                whole, share = sorted((each.numel() * each.element_size() for each in args[:2]), reverse=True)
                self.sent_bytes[kind] += whole - share
        return func(*args, **(kwargs or {}))


def sent(machine: Machine) -> tuple[list[dict[str, float]], list[int]]:
    """By rank: what an iteration sends by kind, of members' all-reduces alone and no others; and the bytes of the
    optimizers' states. In the first iteration replicas also agree on which gradients there are."""
    machine.iterate()
    with Collectives() as counted:
        machine.iterate()
    reduced = [each.sent_bytes for each in machine.members.exchanged if each.kind == "all_reduce"]
    assert counted.times["all_reduce"] == len(reduced) or loss_over_rows(machine)
    stored = sum(
        value.numel() * value.element_size()
        for optimizer in machine.optimizers.values()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.dim()
    )
    every: list[Any] = [None] * machine.processes
    dist.all_gather_object(every, (counted.sent_bytes | {"all_reduce": sum(reduced)}, stored))
    return [each for each, _ in every], [stored for _, stored in every]


def calls(machine: Machine, target: object) -> list[torch.fx.Node]:
    nodes = (node for stage in machine.stages.values() for node in stage.program.module.graph.nodes)
    return [node for node in nodes if node.target is target]


def loss_over_rows(machine: Machine) -> bool:
    return bool(calls(machine, loss_of_rows)) or any(node.args[1] for node in calls(machine, loss_of_classes))


def exchanged(machine: Machine) -> tuple[list[dict[str, float]], list[list[dict[str, float]]]]:
    """By rank and kind, the bytes that are sent within groups in an iteration, of as many collectives as torch was
    asked for; all-reduces are added by replicas, and where the rows of a loss are divided, by the number of targets;
    all-gathers where members exchange how many rows experts have. And the same along each axis."""
    axes = machine.members.axes
    counts = sum(axis.counts for axis in axes)
    with Collectives() as counted:
        machine.iterate()
    own = [by_kind(axis.exchanged) for axis in axes]
    total = by_kind(machine.members.exchanged)
    times = Counter(each.kind for each in machine.members.exchanged)
    counted.times["all_gather"] -= sum(axis.counts for axis in axes) - counts
    if calls(machine, routed.exchange):  # of unequal rows all are all-to-alls
        assert sum(counted.times[kind] for kind in KINDS[1:4]) == sum(times.get(kind, 0) for kind in KINDS[1:4])
    else:
        assert all(counted.times[kind] == times.get(kind, 0) for kind in KINDS[1:4])
    assert counted.times["all_reduce"] >= times.get("all_reduce", 0)
    if not machine.groups and not loss_over_rows(machine):
        assert counted.times["all_reduce"] == times.get("all_reduce", 0)
    every: list[Any] = [None] * machine.processes
    dist.all_gather_object(every, (total, own))
    return [each for each, _ in every], [each for _, each in every]


def by_kind(exchanges: Iterable[Exchanged]) -> dict[str, float]:
    """The bytes sent in each kind."""
    nbytes_of: dict[str, float] = {}
    for each in exchanges:
        nbytes_of[each.kind] = nbytes_of.get(each.kind, 0.0) + each.sent_bytes
    return nbytes_of


def wrong_gradients(machine: Machine) -> None:
    """What flows back between ranks is a thousandth too large."""
    flowing_back = machine.exchange.flowing_back
    machine.exchange.flowing_back = lambda c, p: tuple(1.001 * t for t in flowing_back(c, p))  # type: ignore[method-assign]


def wrong_samples(machine: Machine) -> None:
    """Every micro-batch reads what the first one should."""
    read_sample = machine.read_sample
    machine.read_sample = lambda segment, micro_batch, position: read_sample(segment, 0, position)  # type: ignore[method-assign]
    machine._runtime.work = replace(machine._runtime.work, read_sample=machine.read_sample)  # type: ignore[union-attr]


def wrong_step(machine: Machine) -> None:
    """The optimizer's steps are a tenth too long."""
    for optimizer in machine.optimizers.values():
        for group in optimizer.param_groups:
            group["lr"] *= 1.1


def lost_gradients(machine: Machine) -> None:
    """The gradients of parameters of the last micro-batch are never computed."""
    for stage in machine.stages.values():
        later = stage.backward_weight
        last = machine.script.mini_batch // machine.script.segments[stage.segment].micro_batch_size - 1
        stage.backward_weight = lambda m, later=later, last=last: None if m == last else later(m)  # type: ignore[method-assign]


def other_masks(machine: Machine) -> None:
    """Dropout draws by another seed."""
    for stage in machine.stages.values():
        if stage.calling is not None:
            stage.calling.seed += 1  # type: ignore[attr-defined]


def forgotten_sum(machine: Machine) -> None:
    """Nobody adds up what the members of a group have of a sum."""
    for axis in machine.members.axes:
        axis.add_up = lambda tensor, *how: tensor.clone()  # type: ignore[method-assign]


def wrong_share(machine: Machine) -> None:
    """Every member of a group takes the share of the first."""
    for axis in machine.members.axes:
        axis.share = type(axis)(0, axis.members).share  # type: ignore[method-assign]


def unsummed_parts(machine: Machine) -> None:
    """Gradients of which each member of a group has a part are not added up."""
    machine._partial = lambda segment: []  # type: ignore[method-assign]


def over_the_other_axis(machine: Machine, kind: Callable[[str, str], bool]) -> None:
    """The first exchange of a kind goes to the members along the other axis."""
    one = next(node for node in calls(machine, exchange) if kind(str(node.args[1]), str(node.args[2])))
    *args, axis = one.args
    one.args = (*args, 1 - int(str(axis)))
    for stage in machine.stages.values():
        stage.program.module.recompile()


def only_in_iterations(machine: Machine, owner: Any, name: str, spoilt: Any) -> None:
    """Something is spoilt while the plan runs, and is not in what it is compared with."""
    iterate, right = machine.iterate, getattr(owner, name)

    def iterated() -> None:
        setattr(owner, name, spoilt)
        try:
            iterate()
        finally:
            setattr(owner, name, right)

    machine.iterate = iterated  # type: ignore[method-assign]


def disordered(machine: Machine) -> None:
    """Rows that came to experts stay in the order of who sent them."""
    only_in_iterations(machine, routed.Rows, "arrival", lambda rows: torch.arange(int(rows.of_experts().sum())))


def skipped(machine: Machine) -> None:
    """One member does not attend to the keys and values of the one before it."""
    seen, member = ring.Turns.seen, machine.members.member

    def spoilt(turns: ring.Turns, owner: int, tokens: int) -> ring.Seen | None:
        return None if member == 1 and owner == 0 else seen(turns, owner, tokens)

    only_in_iterations(machine, ring.Turns, "seen", spoilt)


def unreturned(machine: Machine) -> None:
    """Members keep what they have of the gradients of others' keys and values."""
    add = ring.Returning.add
    only_in_iterations(machine, ring.Returning, "add", lambda back, turn, own: add(back, turn, () if turn else own))


def unmirrored(machine: Machine) -> None:
    """Tokens in two chunks a member are attended to as if they followed one another."""
    seen = ring.Turns.seen

    def spoilt(turns: ring.Turns, owner: int, tokens: int) -> ring.Seen | None:
        return seen(replace(turns, dealt=ring.PLAIN), owner, tokens)

    only_in_iterations(machine, ring.Turns, "seen", spoilt)


def not_gathered(machine: Machine) -> None:
    """What other replicas have updated never comes here."""
    for shards in machine.every_shards():
        shards.gather = lambda: None  # type: ignore[method-assign]


def not_summed(machine: Machine) -> None:
    """Each replica updates its part by the gradients of its own samples alone."""
    for shards in machine.every_shards():
        begin = shards.begin_sum

        def alone(begin: Callable[[], None] = begin, shards: Shards = shards) -> None:
            own = torch.cat([p.grad.flatten() for p in shards.parameters if p.grad is not None])
            begin()
            work, whole = shards._work, shards._gradients
            assert work is not None
            assert whole is not None
            work.wait()
            shards._work = None
            whole[: len(own)] = own

        shards.begin_sum = alone  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[Machine], None]] = {
    "": lambda machine: None,
    "gradients": wrong_gradients,
    "samples": wrong_samples,
    "step": wrong_step,
    "lost": lost_gradients,
    "masks": other_masks,
    "sums": forgotten_sum,
    "shares": wrong_share,
    "parts": unsummed_parts,
    "sum over the other axis": lambda machine: over_the_other_axis(machine, lambda before, _: before == PARTIAL),
    "gather over the other axis": lambda machine: over_the_other_axis(
        machine, lambda before, after: before.startswith(("S", "Z")) and after.startswith("R")
    ),
    "rows": disordered,
    "skipped": skipped,
    "unreturned": unreturned,
    "unmirrored": unmirrored,
    "gathered": not_gathered,
    "summed": not_summed,
}


def whole_sizes(machine: Machine) -> dict[str, Value]:
    captured = next(iter(machine.program.sized.values()))[0]
    return {name: captured.values[value] for value, name in captured.parameters.items()}


def trace_all(folder: Path, cases: list[Any]) -> None:
    """From here on `make_machine` finds the models traced."""
    known: dict[tuple[Any, ...], Program] = {}

    def key_of(file: PlanFile, request: RunRequest) -> tuple[Any, ...]:
        shares = machines.shares_of(file.problem, file.plan)
        graph = file.problem.graph
        return file.reference, graph.trains, graph.samples, request.dtype, shares, repr(graph.division)

    for _, _, plan, given, _ in cases:
        file, request = read_plan((folder / plan).read_bytes(), plan), read_request(given)
        key = key_of(file, request)
        if key not in known:
            known[key] = machines.trace(file, request)
    machines.trace = lambda file, request: known[key_of(file, request)]


def divide(processes: int) -> int:
    """Forks; returns which process this is. The first one waits for the others when it ends."""
    for process in range(1, processes):
        if os.fork() == 0:
            return process
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    listed = json.loads((place / "cases.json").read_text())
    trace_all(place, listed)
    main(place, listed, divide(int(sys.argv[2])))
