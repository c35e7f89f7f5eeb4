"""One rank, ready to run: its segments with their parameters, its ends of the channels, its optimizers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn

from explorer.runner.bundles.progress import report
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.exchange import Exchange
from explorer.runner.engine.recording import Recorder, recorder_for
from explorer.runner.engine.runtime import ScriptRuntime, Work, stage_numbers
from explorer.runner.engine.sending import Sends
from explorer.runner.engine.shards import Shards, shards_of, share_out
from explorer.runner.engine.stages import Port, SegmentStage
from explorer.runner.model.cuts import check_cuts, check_states
from explorer.runner.model.drawing import Drawing, seed_calls
from explorer.runner.model.exchanges import group
from explorer.runner.model.optimizers import OPTIMIZERS, dense, make_dense, step
from explorer.runner.model.program import Program, trace_for_run
from explorer.runner.model.samples import make_samples
from explorer.runner.model.segment_module import Kind
from explorer.runner.model.weights import Held, hold
from explorer.runner.scripts.answers import answers
from explorer.runner.scripts.executable import optimizer_of, processes, shares_states
from explorer.runner.scripts.lowering import make_script
from explorer.runner.scripts.script import Script
from solvers.errors import RunError
from solvers.formats.plan_json import PlanFile
from solvers.plan.plan import Plan
from solvers.problem.problem import Objective, Problem


@dataclass
class Machine:
    """What one rank runs.

    rank, ranks: of the plan's devices, in `script`. Where the devices are groups, each rank is one process of every
    group's `members`; those of one place in their groups (`column`) run the script among themselves, and exchange with
    the other members of their own group inside of calls.
    """

    script: Script
    program: Program
    held: Held
    rank: int
    ranks: int
    device: torch.device
    recorder: Recorder
    exchange: Exchange
    sends: Sends
    samples: tuple[Tensor, ...]
    members: group.Group = field(default_factory=group.Group)
    column: dist.ProcessGroup | None = None
    stages: dict[int, SegmentStage] = field(default_factory=dict)
    owned: dict[int, tuple[nn.Parameter, ...]] = field(default_factory=dict)
    """Segment -> the trainable parameters that it updates."""
    optimizers: dict[int, torch.optim.Optimizer] = field(default_factory=dict)
    states_on_host: bool = False
    """Whether those of optimizers are, and come to the device for the update."""
    groups: dict[tuple[int, ...], dist.ProcessGroup] = field(default_factory=dict)
    """Devices of replicas -> those that average with one another."""
    shards: dict[int, tuple[Shards, ...]] = field(default_factory=dict)
    """Segment -> those of its parameters, where replicas shard the states of the optimizer."""
    notes: tuple[str, ...] = ()
    iterations: int = 0
    """That have begun."""
    _syncing: dict[int, Sequence[_Sum | Shards]] = field(default_factory=dict)
    _runtime: ScriptRuntime | None = None

    @property
    def has_loss(self) -> bool:
        """Whether the model has an output that a loss can be made of."""
        captured = self.program.captured
        return any(captured.values[name].is_float for name in captured.outputs)

    @property
    def process(self) -> int:
        """This rank's number among all processes."""
        return self.process_of(self.rank)

    @property
    def processes(self) -> int:
        """The number of all processes."""
        return self.ranks * self.members.members

    def process_of(self, rank: int) -> int:
        """The number, among all processes, of the one that has this one's place in the group of a rank."""
        return rank * self.members.members + self.members.member

    def start(self, ports: dict[tuple[int, bool], Port]) -> None:
        """Make the runtime, once segments and ports are there."""
        work = Work(
            self.stages, ports, self.exchange, self.sends, self.read_sample, self.synchronise, self.update, self.settle
        )
        self._runtime = ScriptRuntime(self.script, self.rank, work, self.recorder)

    def iterate(self, *, adding: bool = False) -> None:
        """One iteration: forward, backward and update of a mini-batch, or one pass. adding: to the gradients that are
        there from the iteration before; without it they begin again."""
        assert self._runtime is not None
        self.iterations += 1
        self.members.forget()
        for stage in self.stages.values():
            stage.losses.clear()
        if adding:
            self._share_sums()
        else:
            for parameter in self.held.parameters.values():
                parameter.grad = None
        for shards in self.every_shards():
            shards.begin(adding=adding)
        self._runtime.iterate()
        for segment in list(self._syncing):  # where no update follows
            self.settle(segment)
        if self.optimizers:
            self.gather()

    def share_out_states(self) -> None:
        """Let replicas hold a part each of the optimizer's states (ZeRO-1), from the first iteration on: of each
        segment its optimizer is to have `updated`. Every rank must call it."""
        for segment, owned in sorted(self.owned.items()):
            devices = self.script.segments[segment].devices
            if owned and len(devices) > 1:
                self.shards[segment] = shards_of(owned, self.groups[devices])

    def every_shards(self) -> list[Shards]:
        """In the order in which all ranks exchange what they are of, where nothing else orders it."""
        return [shards for _, several in sorted(self.shards.items()) for shards in several]

    def updated(self, segment: int) -> list[nn.Parameter]:
        """What this rank's optimizer has of a segment: the parameters, or pieces of them."""
        if segment not in self.shards:
            return list(self.owned[segment])
        return [piece.value for shards in self.shards[segment] for piece in shards.pieces]

    def gather(self) -> None:
        """Exchange parameters of which each replica has updated a part, after the last update of an iteration: within
        the script one could wait for another."""
        for shards in self.every_shards():
            shards.gather()

    def gradients(self) -> Iterator[tuple[str, Tensor]]:
        """Those of the last iteration, of the parameters that this rank updates: each as a copy, dense, by name. All
        replicas call it together."""
        names = {id(parameter): name for name, parameter in self.held.parameters.items()}
        for segment, owned in sorted(self.owned.items()):
            pairs = [(parameter, parameter.grad) for parameter in owned]
            if segment in self.shards:
                several = self.shards[segment]
                pairs = [pair for each in several for pair in zip(each.parameters, each.gradients(), strict=True)]
            yield from ((names[id(parameter)], dense(value)) for parameter, value in pairs if value is not None)

    def _share_sums(self) -> None:
        """Leaves each replica, and each member with a part of a gradient, its share of a sum that all of them have:
        they will be added up once more."""
        for segment, owned in self.owned.items():
            if segment in self.shards:
                continue
            replicas = len(self.script.segments[segment].devices)
            parts = [(parameter, replicas) for parameter in owned]
            parts += [(parameter, axis.members) for parameter, axis in self._partial(segment)]
            for parameter, count in parts:
                if parameter.grad is not None and count > 1:
                    parameter.grad.div_(count)

    def _partial(self, segment: int) -> list[tuple[nn.Parameter, group.Members]]:
        """The parameters that a segment updates and of which each member of the group has a part of the gradient, with
        the members along each axis that have the others."""
        owned = {id(parameter) for parameter in self.owned[segment]}
        names = sorted(self.program.partial.keys() & self.held.parameters.keys())
        partial = [(self.held.parameters[name], axis) for name in names for axis in self.program.partial[name]]
        return [(parameter, self.members.axes[axis]) for parameter, axis in partial if id(parameter) in owned]

    def loss(self) -> float:
        """This rank's part of the mini-batch's loss of the last iteration."""
        return float(sum(float(loss) for stage in self.stages.values() for loss in stage.losses.values()))

    def first_not_finite(self) -> tuple[int, float] | None:
        """(micro-batch, its part of the loss) of the last iteration, the first on this rank that is no finite number;
        None where all are."""
        parts = ((count, float(loss)) for stage in self.stages.values() for count, loss in stage.losses.items())
        return min((part for part in parts if not math.isfinite(part[1])), default=None)

    def read_sample(self, segment: int, micro_batch: int, position: int) -> Tensor:
        """What a micro-batch of a segment reads of one of the model's inputs on this rank."""
        whole = self.samples[position]
        dim = self.program.sample_dim(self.program.captured.inputs[position])
        if dim is None:
            return whole
        return whole.narrow(dim, self.exchange.first(segment, micro_batch), self.script.segments[segment].share)

    def synchronise(self, segment: int) -> None:
        """Begin to add up the replicas' gradients of the parameters that a segment updates."""
        make_dense(self.owned[segment])  # the replicas looked up different rows
        if segment in self.shards:
            self._add_up_parts(segment)  # of whole gradients, as planned: no replica has them whole afterwards
            for shards in self.shards[segment]:
                shards.begin_sum()
            self._syncing[segment] = self.shards[segment]
        elif self.owned[segment]:
            group = self.groups[self.script.segments[segment].devices]
            self._syncing[segment] = (_Sum(self.owned[segment], group),)

    def settle(self, segment: int) -> None:
        """Wait for the sum of the replicas' gradients."""
        for each in self._syncing.pop(segment, ()):
            each.finish_sum()

    def update(self, segment: int) -> None:
        """The optimizer's step for the parameters that a segment updates, once what members have of a gradient is added
        up."""
        if segment not in self.shards:
            self._add_up_parts(segment)
        if segment in self.optimizers:
            step(self.optimizers[segment], states_on_host=self.states_on_host)

    def _add_up_parts(self, segment: int) -> None:
        """Of gradients of which each member of the group has a part."""
        for parameter, axis in self._partial(segment):
            if parameter.grad is not None:  # at all members or at none: they run the same calls
                parameter.grad = axis.add_up(parameter.grad)

    def drawn_apart(self, call: str) -> int:
        """What makes a call's random numbers differ from those of the other members, 0 where they are the same."""
        return self.program.drawn_apart(call, self.members.member)

    def message_bytes(self, channel: int, piece: int, gradient: bool) -> int:
        """What a message carries."""
        at = self.script.channels[channel]
        total = 0
        for tensor, flows in zip(at.tensors, at.gradient, strict=True):
            if flows or not gradient:
                shape, dtype = self.exchange.shapes.tensor_meta(tensor, at.pieces[piece].samples)
                total += torch.Size(shape).numel() * dtype.itemsize
        return total


class _Sum:
    """A sum over replicas under way: every replica's gradients already have its samples' share as weight. Those that
    no replica has stay None; of a tensor that all replicas send, its gradient may go to one of them."""

    def __init__(self, parameters: Sequence[nn.Parameter], group: dist.ProcessGroup) -> None:
        self.parameters = parameters
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        known = gradients[0].new_tensor([p.grad is not None for p in parameters])
        self.flat = torch.cat([known, *(gradient.flatten() for gradient in gradients)])
        self.work = dist.all_reduce(self.flat, group=group, async_op=True)

    def finish_sum(self) -> None:
        assert self.work is not None
        self.work.wait()
        known, *parts = torch.split(self.flat, [len(self.parameters), *(p.numel() for p in self.parameters)])
        for parameter, part, there in zip(self.parameters, parts, known, strict=True):
            if parameter.grad is None and there:  # only then is it looked at, for which a GPU's queue is waited for
                parameter.grad = torch.empty_like(parameter)
            if parameter.grad is not None:
                parameter.grad.copy_(part.view_as(parameter))


class Sizes:
    """Shapes of the graph's forward tensors at any number of samples."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._dims: dict[int, int | None] = {}
        self._any = next(iter(program.sized.values()))[0]

    def batch_dim(self, tensor: int) -> int | None:
        if tensor not in self._dims:
            self._dims[tensor] = self.program.batch_dim(tensor)
        return self._dims[tensor]

    def tensor_meta(self, tensor: int, samples: int) -> tuple[tuple[int, ...], torch.dtype]:
        name = self.program.edges[tensor].value
        if samples in self.program.sized:  # also of what cannot be cut, since several dimensions hold samples
            value = self.program.sized[samples][0].values[name]
            return value.shape, getattr(torch, value.dtype)
        value, dim = self._any.values[name], self.batch_dim(tensor)
        shape = list(value.shape)
        if dim is not None:
            shape[dim] = shape[dim] // self._any.samples * samples
        return tuple(shape), getattr(torch, value.dtype)


def shares_of(problem: Problem, plan: Plan) -> tuple[int, ...]:
    """The numbers of samples that replicas take of a micro-batch."""
    single = problem.objective is Objective.MAKESPAN
    shares = set()
    for number, stage in enumerate(plan.stages):
        size = problem.mini_batch if single else stage.micro_batch_size
        if size % len(stage.devices):
            raise RunError(
                f"stage {number}: {len(stage.devices)} replicas cannot share micro-batches of {size} samples;"
                " plan with other replicas or micro-batches"
            )
        shares.add(size // len(stage.devices))
    return tuple(sorted(shares))


def trace(file: PlanFile, request: RunRequest) -> Program:
    """The model of a plan, traced for all shares of micro-batches. Raises PlacementError."""
    problem = file.problem
    return trace_for_run(
        file.reference,
        training=problem.graph.trains,
        dtype=request.dtype,
        graph=problem.as_traced.graph,
        samples=shares_of(problem, file.plan),
        without_dropout=without_dropout(file, request),
        allow_model=request.allow_model,
    )


def without_dropout(file: PlanFile, request: RunRequest) -> bool:
    """Whether nothing is dropped: a custom loop draws other numbers than a run, and so does the model in a plain
    loop where stages have other shares of the samples than it takes at once, or tensors are divided."""
    several = len(shares_of(file.problem, file.plan)) > 1 or file.problem.graph.tensor_parallel > 1
    return request.dump or (request.verify and several)


def make_machine(
    file: PlanFile, request: RunRequest, rank: int, ranks: int, device: torch.device, program: Program | None = None
) -> Machine:
    """This rank's part of a plan. program: what `trace` gave, if it was asked before. Raises PlacementError for
    what cannot run; every rank must call it."""
    problem = file.problem
    check_ranks(problem, file.plan, ranks)
    report("tracing")
    program = program or trace(file, request)
    script = script_of(problem, file.plan, program)
    report("building")
    held = hold(
        file.reference, names_held(script, program, rank // program.members), seed=request.seed, dtype=program.dtype,
        device=device, allow_model=request.allow_model,
    )  # fmt: skip
    samples = make_samples(
        file.reference, problem.mini_batch, seed=request.seed, dtype=program.dtype, device=device,
        allow_model=request.allow_model,
    )  # fmt: skip
    machine = assemble(script, program, held, samples, rank, device)
    for segment, stage in machine.stages.items():
        if seed_calls(stage.program.module, machine.drawn_apart):
            stage.calling = _drawing(machine, request.seed, segment)
    machine.states_on_host = bool(problem.state_links)
    if shares_states(problem, file.plan):
        machine.share_out_states()
    kind = OPTIMIZERS[optimizer_of(problem, request.optimizer)]
    for segment, parameters in machine.owned.items():
        if parameters and script.training:
            machine.optimizers[segment] = kind(parameters, lr=request.learning_rate)
            share_out(machine.optimizers[segment], machine.shards.get(segment, ()))
    return machine


def _drawing(machine: Machine, seed: int, segment: int) -> Drawing:
    return Drawing(seed, lambda: machine.iterations, lambda micro_batch: machine.exchange.first(segment, micro_batch))


def check_ranks(problem: Problem, plan: Plan, ranks: int) -> None:
    """Raises RunError if a plan is for another number of processes."""
    used = processes(problem, plan)
    if ranks != used:
        raise RunError(f"the plan uses {used} devices, so it runs on {used} ranks; found {ranks}")


def script_of(problem: Problem, plan: Plan, program: Program) -> Script:
    """What the ranks do. Raises PlacementError for what cannot run."""
    script = make_script(problem, plan, program.gradients)
    check_cuts(program, script)
    check_states(program, script)
    return script


def names_held(script: Script, program: Program, rank: int) -> tuple[str, ...]:
    """The parameters that a rank's segments read."""
    own = [at for at in script.segments if script.devices[rank] in at.devices]
    return program.parameters_of([o for at in own for o in at.operators])


def assemble(
    script: Script, program: Program, held: Held, samples: tuple[Tensor, ...], rank: int, device: torch.device
) -> Machine:
    """This rank, with what it holds, and without optimizers; every rank must call it. held: whole tensors. samples: as
    `make_samples` gives them; they may be replaced before an iteration. rank: among all processes."""
    ranks, here = len(script.devices), _joined(program.degrees, rank, len(script.devices) * program.members)
    rank //= program.members
    column = None
    if here.members > 1:
        column = _groups([range(m, ranks * here.members, here.members) for m in range(here.members)], here.member)
    recorder = recorder_for(device)
    for axis in here.axes:
        axis.now = recorder.now
    machine = Machine(
        script, program, program.placed.held(held, here.member), rank, ranks, device, recorder,
        Exchange(script, script.devices[rank], Sizes(program), device), Sends(answers(script, rank)), samples,
        here, column, notes=held.notes,
    )  # fmt: skip
    for devices in sorted({at.devices for at in script.segments if len(at.devices) > 1}):
        sharing = [script.devices.index(d) for d in devices]
        machine.groups[devices] = _groups(
            [[r * here.members + m for r in sharing] for m in range(here.members)], here.member
        )  # fmt: skip
    _make_segments(machine)
    machine.start(_make_ports(machine))
    return machine


def _joined(degrees: Sequence[int], process: int, processes: int) -> group.Group:
    """The group of a process, which along each axis exchanges with those that have its places along the others; every
    process must call it. degrees: members along each axis, the outer first."""
    axes, stride = [], 1
    for degree in reversed(degrees):
        place = process // stride % degree
        axis = group.Members(place, degree)
        if degree > 1:
            firsts = [one for one in range(processes) if one // stride % degree == 0]
            every = [range(first, first + degree * stride, stride) for first in firsts]
            axis.group = _groups(every, firsts.index(process - place * stride))
        axes.append(axis)
        stride *= degree
    return group.join(*reversed(axes))


def _groups(places: Sequence[Sequence[int]], own: int) -> dist.ProcessGroup:
    """One of several groups of processes, all of which every process must make."""
    made: dist.ProcessGroup | None = [dist.new_group(list(each)) for each in places][own]
    assert made is not None
    return made


def _make_segments(machine: Machine) -> None:
    script = machine.script
    firsts, _, stages = stage_numbers(script)
    stages *= machine.members.members  # torch wants at least one a process
    here = script.devices[machine.rank]
    for s, at in enumerate(script.segments):
        if here not in at.devices:
            continue
        reads = {t for c in script.channels if s in c.readers and c.dst_device == here for t in c.tensors}
        sends = {t for c in script.channels if c.source == s for t in c.tensors}
        needed, _ = machine.program.crossing(at.operators)
        program = machine.program.segment(at.operators, at.share, machine.held, reads=reads & set(needed), sends=sends)
        machine.stages[s] = SegmentStage(
            program, s, firsts[s] + at.devices.index(here), stages, machine.device,
            [i.kind is Kind.TENSOR and i.gradient for i in program.inputs],
            at.share / script.mini_batch, at.recompute, machine.program.regions(at.regions),
        )  # fmt: skip
        machine.stages[s].offload = machine.program.names_of(at.offload)
        owned = [machine.held.parameters[name] for name in machine.program.owned_by(at.operators)]
        machine.owned[s] = tuple(parameter for parameter in owned if parameter.requires_grad)


def _make_ports(machine: Machine) -> dict[tuple[int, bool], Port]:
    script = machine.script
    _, first, stages = stage_numbers(script)
    stages *= machine.members.members
    here = script.devices[machine.rank]
    rank_of = {device: rank for rank, device in enumerate(script.devices)}
    ports = {}
    for number, channel in enumerate(script.channels):
        if channel.is_local:
            continue
        for is_source, end, peer in (
            (True, channel.src_device, channel.dst_device),
            (False, channel.dst_device, channel.src_device),
        ):
            if end == here:
                ports[number, is_source] = Port(
                    number, first + 2 * number + (not is_source), stages, machine.process_of(rank_of[peer]),
                    machine.exchange,
                    machine.recorder, machine.sends, machine.device,
                )  # fmt: skip
    return ports
