"""A model traced again for a run: the calls behind every operator of a plan, as modules."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, fx, nn
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram

from demo_models import MODELS
from explorer.question.models.example import undivided
from explorer.question.models.libraries import graph_name, library_of
from explorer.runner.model.construct import Built, construct
from explorer.runner.model.divided import Divided, Placed
from explorer.runner.model.exchanges.group import current, places
from explorer.runner.model.flat import Flat, From, Source, flatten
from explorer.runner.model.optimizers import DTYPES, floating
from explorer.runner.model.recomputation import Region
from explorer.runner.model.same_model import check_same
from explorer.runner.model.segment_module import Input, Kind, Output, Parts, SegmentProgram, build_segment
from explorer.runner.model.weights import Held
from explorer.tracing.batching import doubled
from explorer.tracing.build import build, operators, same_nodes
from explorer.tracing.capture import capture
from explorer.tracing.captured import Captured, Node
from explorer.tracing.fake import at_batch, batch_of, fake_inputs, fake_module
from explorer.tracing.fold import NO_OPERATOR, Folded
from explorer.tracing.forward import Edge
from explorer.tracing.sharding.stated import as_stated
from solvers.errors import InvalidProblem, RunError, TraceError
from solvers.problem.collectives import axes_of
from solvers.problem.graph import OpGraph

STATISTICS = ("running_mean", "running_var")
"""Arguments of a norm that it changes in training, of which no schema says so."""

__all__ = ["Input", "Kind", "Output", "Program", "SegmentProgram", "trace_for_run"]


@dataclass(frozen=True)
class Program:
    """A model, ready to be cut into segments.

    captured, folded and edges: of the graph's own batch; edges are the graph's first tensors, in order.
    sized: samples -> the capture at that number, and its calls. dtype: of floating tensors in the run, None:
    as the model is (give it to `hold` and `make_samples`). divided: where tensors are, how, and all of these are what
    one member of a group runs; whole: then the same of the whole model; partial: names of the parameters of which each
    member has a part of the gradient -> along which axes of the group.
    """

    reference: str
    captured: Captured
    folded: Folded
    edges: tuple[Edge, ...]
    sized: Mapping[int, tuple[Captured, Flat]]
    doubled: Captured | None
    dtype: torch.dtype | None
    divided: Divided | None = None
    whole: Program | None = None
    partial: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def degrees(self) -> tuple[int, ...]:
        """Members of a group along each axis, the outer first."""
        return (1,) if self.divided is None else self.divided.degrees

    @property
    def members(self) -> int:
        """Of a group, which run one model together."""
        return math.prod(self.degrees)

    @property
    def whole_model(self) -> Program:
        """Of the whole model, which this may be."""
        return self.whole or self

    @cached_property
    def placed(self) -> Placed:
        """How parameters, buffers, constants and samples lie over the members of a group."""
        captured, flat = next(iter(self.sized.values()))
        return Placed({}) if self.divided is None else self.divided.placed(captured, flat)

    def drawn_apart(self, call: str, member: int) -> int:
        """What makes a member's random numbers in a call differ from those of the others, 0 where they are the same:
        members that make other parts of what it gives draw others."""
        if self.divided is None:
            return 0
        number = 0
        for axis, place in enumerate(places(member, self.degrees)):
            made = (self.divided.placements(name, self.captured)[axis] for name in self.calls[call].outputs)
            number = number * self.degrees[axis] + place * any(each.startswith(("S(", "Z(", "E(")) for each in made)
        return number

    def undivided(self, operators: Sequence[int]) -> tuple[int, ...]:
        """Those of the whole model whose calls these make; themselves where tensors are whole."""
        if self.whole is None:
            return tuple(operators)
        names, nodes = self.names_of(operators), self.whole.captured.nodes
        leaders = enumerate(self.whole.folded.leaders)
        return tuple(operator for operator, position in leaders if nodes[position].name in names)

    @cached_property
    def calls(self) -> dict[str, Node]:
        """By name."""
        return {node.name: node for node in self.captured.nodes}

    @cached_property
    def gradients(self) -> tuple[frozenset[int], ...]:
        """Per forward tensor: the operators that send a gradient back, as autograd says."""
        return tuple(edge.with_gradient for edge in self.edges)

    @cached_property
    def readers(self) -> dict[str, tuple[int, ...]]:
        """Name of a parameter (of tied ones the first) -> the operators that read it, the owner first."""
        groups_of: dict[str, list[int]] = {}
        for group, members in enumerate(self.folded.groups):
            read = {self.captured.root(v) for position in members for _, v in self.captured.nodes[position].tensors}
            for value in read & self.captured.parameters.keys():
                groups_of.setdefault(_first(self.captured.parameters[value]), []).append(group)
        return {name: tuple(groups) for name, groups in sorted(groups_of.items())}

    def parameters_of(self, operators: Collection[int]) -> tuple[str, ...]:
        """Names of the parameters that ``operators`` read."""
        return tuple(name for name, groups in self.readers.items() if not set(groups).isdisjoint(operators))

    def owned_by(self, operators: Collection[int]) -> tuple[str, ...]:
        """Names of the parameters that ``operators`` own, and update: the first operator that reads one."""
        return tuple(name for name, groups in self.readers.items() if groups[0] in operators)

    def calls_of(self, operator: int) -> tuple[int, ...]:
        """Positions of the calls that run where an operator does: its own, and the counters that go with it."""
        return (*self.folded.groups[operator], *self.counters.get(operator, ()))

    @cached_property
    def counters(self) -> Mapping[int, tuple[int, ...]]:
        """Operator -> the calls that count for it, as a batch norm counts its batches, and are no operators. All of one
        buffer go with one: the first operator that reads it, else the one that follows the first of them."""
        nodes = self.captured.nodes
        group_of = {p: group for group, members in enumerate(self.folded.groups) for p in members}
        read = {p: {self.captured.root(value) for _, value in nodes[p].tensors} for p in group_of}
        home: dict[str, int] = {}
        positions_of: dict[int, list[int]] = {}
        for position, node in enumerate(nodes):
            for buffer in buffers_changed(self.captured, node) if position not in group_of else ():
                if buffer not in home:
                    readers = [p for p in sorted(group_of) if buffer in read[p]]
                    following = [p for p in sorted(group_of) if p > position]
                    home[buffer] = group_of[(readers or following or [max(group_of)])[0]]
                positions_of.setdefault(home[buffer], []).append(position)
        return {group: tuple(positions) for group, positions in positions_of.items()}

    def owners(self, module: fx.GraphModule) -> dict[str, int]:
        """Node of a segment's module -> the operator that it is a call of."""
        nodes, groups = self.captured.nodes, self.folded.groups
        group_of = {nodes[member].name: group for group, members in enumerate(groups) for member in members}
        calls = {node.name: node.meta.get("call") for node in module.graph.nodes}
        return {name: group_of[call] for name, call in calls.items() if call in group_of}

    def changed_by(self, operators: Collection[int]) -> frozenset[str]:
        """The buffers that these operators change, by their names in the capture."""
        nodes = [self.captured.nodes[position] for operator in operators for position in self.calls_of(operator)]
        return frozenset(buffer for node in nodes for buffer in buffers_changed(self.captured, node))

    def buffer_names_changed(self, operators: Collection[int]) -> frozenset[str]:
        """The same by their names in the module, of a buffer with several names by one or more of them."""
        changed = self.changed_by(operators)
        _, flat = next(iter(self.sized.values()))
        return frozenset(source.target for node, source in flat.sources.items() if flat.value_of[node] in changed)

    def crossing(self, operators: Collection[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Forward tensors that these operators read from others, and those that others read from them."""
        inside = set(operators)
        numbered = list(enumerate(self.edges))
        reads = tuple(p for p, e in numbered if e.producer not in inside and not inside.isdisjoint(e.consumers))
        return reads, tuple(p for p, e in numbered if e.producer in inside and not inside.issuperset(e.consumers))

    def segment(
        self,
        operators: Sequence[int],
        samples: int,
        held: Held,
        *,
        reads: Collection[int] | None = None,
        sends: Collection[int] | None = None,
    ) -> SegmentProgram:
        """The module of ``operators`` at ``samples``, one of those the model was traced for.

        reads: forward tensors from outside (default: all that these operators read and do not make); sends:
        those to give (default: all that others read). Both ascend in the module's inputs and outputs; then
        come the samples, and the outputs of the model.

        Raises RunError if the operators cannot run apart from others, or a parameter is not held.
        """
        if samples not in self.sized:
            raise RunError(f"the model was not traced for {samples} samples; it was for {sorted(self.sized)}")
        needed, given = self.crossing(operators)
        if reads is not None and not set(needed) <= set(reads):
            missing = self.edges[min(set(needed) - set(reads))]
            raise RunError(f"a segment reads {missing.value} of operator {missing.producer}, which is not sent to it")
        self._check_early_reads(operators)
        captured, flat = self.sized[samples]
        parts = Parts(self.captured, self.folded, self.calls_of, self.edges, flat, captured)
        return build_segment(
            parts,
            operators,
            needed if reads is None else sorted(reads),
            given if sends is None else sorted(sends),
            _Tensors(self.captured, flat, held, self.placed),
            held.device,
        )

    def _check_early_reads(self, segment: Collection[int]) -> None:
        """A tensor is sent as it is after its operator ran, all in-place calls included."""
        inside = set(segment)
        for reader, writer, value in self.early_reads:
            if (reader in inside) != (writer in inside):
                raise RunError(
                    f"operator {self.captured.nodes[self.folded.groups[reader][0]].name} reads {value} before"
                    f" {self.captured.nodes[self.folded.groups[writer][0]].name} changes it in place, so both must be"
                    " in one stage; or change the model not to work in place"
                )

    @cached_property
    def early_reads(self) -> tuple[tuple[int, int, str], ...]:
        """(reader, writer, tensor): the reader sees the tensor as it was before the writer changed it, so both must be
        in one segment."""
        nodes, root = self.captured.nodes, self.captured.root
        group_of = {p: group for group, members in enumerate(self.folded.groups) for p in members}
        last: dict[str, int] = {}
        for position, node in enumerate(nodes):
            if group_of.get(position, NO_OPERATOR) != NO_OPERATOR:
                last.update({root(value): position for value in node.mutates})
        reads = []
        for position, group in group_of.items():
            for _, value in nodes[position].tensors:
                writer = last.get(root(value), -1)
                if writer > position and group_of[writer] != group:
                    reads.append((group, group_of[writer], value))
        return tuple(dict.fromkeys(reads))

    def regions(self, given: Sequence[tuple[int, str, bool]]) -> dict[str, Region]:
        """(operator, region, cached) -> those of the calls behind the operators, by their names."""
        nodes = self.captured.nodes
        return {nodes[position].name: (name, cached) for o, name, cached in given for position in self.calls_of(o)}

    def names_of(self, given: Sequence[int]) -> frozenset[str]:
        """The names of the calls behind operators."""
        return frozenset(self.captured.nodes[position].name for o in given for position in self.calls_of(o))

    def batch_dim(self, tensor: int) -> int | None:
        """The dimension of a forward tensor that holds the samples; None: it has none.

        Raises RunError if it is not known, or samples are not outermost in a dimension that holds more.
        """
        return self.sample_dim(self.edges[tensor].value)

    def sample_dim(self, name: str) -> int | None:
        """The same of a value of the capture."""
        value, more = self.captured.values[name], self._other.values[name]
        grown = [dim for dim, (a, b) in enumerate(zip(value.shape, more.shape, strict=True)) if a != b]
        if not grown:
            return None
        if len(grown) > 1 or value.shape[grown[0]] % self.captured.samples:
            raise RunError(f"{name} of shape {list(value.shape)} cannot be cut into samples")
        return grown[0]

    @cached_property
    def widest(self) -> Captured:
        """The capture at the most samples."""
        return max((self.captured, self._other), key=lambda captured: captured.samples)

    @cached_property
    def _other(self) -> Captured:
        """A capture at another batch than the graph's."""
        for samples, (captured, _) in self.sized.items():
            if samples != self.captured.samples:
                return captured
        if self.doubled is None:
            raise RunError(f"{self.reference}: it was traced at one batch only, so tensors cannot be cut into samples")
        return self.doubled


class _Tensors(Mapping[Source, Tensor]):
    """What comes from outside, where it is found."""

    def __init__(self, captured: Captured, flat: Flat, held: Held, placed: Placed) -> None:
        self.flat, self.held, self.placed = flat, held, placed
        self.first = {name: _first(names) for names in captured.parameters.values() for name in names.split(" = ")}
        self.constants: dict[str, Tensor] = {}

    def __getitem__(self, source: Source) -> Tensor:
        if source.kind is From.PARAMETER:
            name = self.first[source.target]
            if name not in self.held.parameters:
                raise RunError(f"the parameter {name} is not held by this rank")
            return self.held.parameters[name]
        if source.target in self.flat.constants:
            constant = self.placed.share(source.target, self.flat.constants[source.target], current().member)
            return self.constants.setdefault(source.target, constant.to(self.held.device, copy=True))
        if source.target not in self.held.buffers:
            raise RunError(f"the values of the tensor {source.target} of the model were not found")
        return self.held.buffers[source.target]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.flat.sources.values())

    def __len__(self) -> int:
        return len(self.flat.sources)


def buffers_changed(captured: Captured, node: Node) -> set[str]:
    """The buffers that a call writes into."""
    changed = set(node.mutates)
    if node.constants.get("training", node.constants.get("use_input_stats")):
        changed |= {name for argument, name in node.tensors if argument in STATISTICS}
    return {captured.root(name) for name in changed} & set(captured.buffers)


def trace_for_run(
    reference: str,
    *,
    training: bool,
    dtype: str | None,
    graph: OpGraph,
    samples: Collection[int],
    without_dropout: bool = False,
    allow_model: bool = False,
) -> Program:
    """The model of ``reference`` at every number of ``samples``.

    Raises RunError if it cannot be run, or is not (or no longer) the model of ``graph``.
    """
    built = construct(reference, wanted=(), seed=0, allow_model=allow_model)
    whole = undivided(reference)
    name = whole if whole in MODELS else whole.rpartition(":")[2]
    if library_of(reference) is not None:
        name = graph_name(reference)
    return trace_built(
        built, name, reference, training=training, dtype=dtype, graph=graph, samples=samples,
        without_dropout=without_dropout,
    )  # fmt: skip


def trace_built(
    built: Built,
    name: str,
    reference: str,
    *,
    training: bool,
    dtype: str | None,
    graph: OpGraph,
    samples: Collection[int],
    without_dropout: bool = False,
) -> Program:
    """`trace_for_run` of a module that is there. name: what its graph is called; reference: what the model is called in
    messages."""
    planned = planned_dtype(built.module, graph)
    try:
        tracer = _Tracer(built, name, training)
        try:
            small, large, divided = tracer.planned(graph, reference, planned)
        except RunError:
            if planned is None:
                raise
            small, large, divided = tracer.planned(graph, reference, None)  # the model itself has another dtype
            planned = None
        run_dtype = planned if dtype is None or (planned is None and _is_all_in(built, dtype)) else floating(dtype)
        sized = {
            count: tracer.at(count, run_dtype, small, without_dropout=without_dropout) for count in sorted(set(samples))
        }
        folded, forward = operators(small, large)
        whole = Program(reference, small, folded, forward.edges, sized, large, run_dtype)
        return whole if divided is None else _of_member(whole, large, divided)
    except TraceError as error:
        raise RunError(str(error)) from error


def _of_member(whole: Program, large: Captured, divided: Divided) -> Program:
    """What one member of a group runs of a model. large: the whole one at another batch than the graph's."""
    small, more = divided.member_of(whole.captured), divided.member_of(large)
    folded, forward = operators(small, more)
    sized = {count: divided.flat(captured, flat) for count, (captured, flat) in whole.sized.items()}
    partial = {_first(small.parameters[value]): axes for value, axes in divided.partial.items()}
    return Program(whole.reference, small, folded, forward.edges, sized, more, whole.dtype, divided, whole, partial)


def planned_dtype(module: nn.Module, graph: OpGraph) -> torch.dtype | None:
    """The floating dtype that the plan was made in, None if it is the model's own."""
    own = [p.dtype for p in module.parameters() if p.is_floating_point()]
    stated = [t.dtype for t in graph.tensors if t.dtype in DTYPES]
    if not own or not stated:
        return None
    target = DTYPES[max(sorted(set(stated)), key=stated.count)]
    return None if max(set(own), key=own.count) == target else target


def _is_all_in(built: Built, dtype: str) -> bool:
    """Whether every floating tensor of the model has this dtype already."""
    tensors = (*built.module.parameters(), *built.module.buffers(), *built.tensors)
    return all(x.dtype == floating(dtype) for x in tensors if x.is_floating_point())


Traced = tuple[Captured, ExportedProgram]


class _Tracer:
    """Captures a module at several batches and in several dtypes, each once."""

    def __init__(self, built: Built, name: str, training: bool) -> None:
        self.built, self.name, self.training = built, name, training
        self._done: dict[tuple[int, torch.dtype | None], Traced] = {}

    def traced(self, samples: int, dtype: torch.dtype | None) -> Traced:
        key = (samples, dtype)
        if key not in self._done:
            mode = FakeTensorMode(allow_non_fake_inputs=True)
            module = fake_module(self.built.module, mode, training=self.training, dtype=dtype)
            inputs = fake_inputs(self.built.args, mode, dtype, self.built.kwargs)
            if samples != batch_of(inputs):
                inputs = at_batch(inputs, samples, mode)
            self._done[key] = capture(module, inputs, mode, name=self.name, training=self.training)
        return self._done[key]

    def both(self, samples: int, dtype: torch.dtype | None) -> tuple[Captured, Captured | None]:
        """At ``samples`` and at twice that; None if that fails or differs (see `trace_module`)."""
        small, _ = self.traced(samples, dtype)
        try:
            large, _ = self.traced(2 * samples, dtype)
        except TraceError:
            return small, None
        return small, large if same_nodes(small, large) else None

    def planned(
        self, graph: OpGraph, reference: str, dtype: torch.dtype | None
    ) -> tuple[Captured, Captured, Divided | None]:
        """At the graph's batch and at another one, and how the graph divides it. Raises RunError if it is not the model
        of ``graph``."""
        small, large = self.both(graph.samples, dtype)
        at, more = (small, large) if large is not None else doubled(small)
        divided = _as_divided(graph, reference, at, more)
        small, large = (at, more) if divided is None else (divided.member_of(at), divided.member_of(more))
        workload = build(
            small, large, reference=reference, training=self.training, tensor_parallel=graph.tensor_parallel
        )
        check_same(workload.graph, graph, reference)
        if divided is not None and workload.graph.division != graph.division:
            raise RunError(f"{reference}: the plan divides another version of the model; plan it again")
        return at, more, divided

    def at(
        self, samples: int, dtype: torch.dtype | None, small: Captured, *, without_dropout: bool
    ) -> tuple[Captured, Flat]:
        captured, program = self.traced(samples, dtype)
        if not _same_calls(small, captured):
            how = f"in {dtype} at {samples} samples" if dtype is not None else f"at {samples} samples"
            raise RunError(
                f"{self.name}: {how} the model makes other calls than the plan's at {small.samples}; choose another"
                " number of micro-batches or replicas, or run it in the plan's dtype"
            )
        return captured, flatten(program, _labels(captured, program), without_dropout=without_dropout)


def _as_divided(graph: OpGraph, reference: str, small: Captured, large: Captured) -> Divided | None:
    """None of a graph whose tensors are whole. small, large: the whole model at two batches."""
    if graph.tensor_parallel == 1:
        return None
    if graph.division is None:
        raise RunError(f"{reference}: the plan does not state how its tensors are divided; plan it again")
    try:
        return Divided(as_stated(graph.division, tuple(axes_of(graph).values()), small, large))
    except InvalidProblem as error:
        raise RunError(str(error)) from error


def _same_calls(a: Captured, b: Captured) -> bool:
    """What is a view may differ: a reshape need not copy where a dimension is 1."""
    return len(a.nodes) == len(b.nodes) and all(
        x.name == y.name and x.target == y.target and x.tensors == y.tensors and x.outputs == y.outputs
        for x, y in zip(a.nodes, b.nodes, strict=True)
    )


def _labels(captured: Captured, program: ExportedProgram) -> dict[str, str]:
    """Name of a placeholder that is a tensor -> the value; a tensor that comes in twice is one value."""
    named = {name: label for label, names in captured.parameters.items() for name in names.split(" = ")}
    buffers, given = iter(captured.buffers), iter(captured.inputs)
    labels = {}
    for spec in program.graph_signature.input_specs:
        kind = spec.kind.name
        if type(spec.arg).__name__ != "TensorArgument":
            continue
        if kind == "PARAMETER":
            labels[spec.arg.name] = named[str(spec.target)]
        else:
            labels[spec.arg.name] = next(given if kind == "USER_INPUT" else buffers)
    return labels


def _first(names: str) -> str:
    return names.split(" = ")[0]
