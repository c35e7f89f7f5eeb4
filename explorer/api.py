"""The names that ``import explorer`` gives."""

from __future__ import annotations

import functools
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, Unpack, cast

from explorer.library.cached_solver import noting
from explorer.library.place import library_path, path_of
from explorer.library.question_key import Terms
from explorer.question.models.example import Example, join_example, of_degree, searches_degrees, split_example
from explorer.question.models.expert_load import load_of
from explorer.question.planner_choice import choose_planner
from explorer.question.problems import make_problem
from explorer.question.questions import PLAN, Question, question_of, workload_of
from explorer.question.settings import (
    ClusterSettings,
    MemorySettings,
    SearchSettings,
    Settings,
)
from explorer.question.written.kinds import Choice
from explorer.question.written.quantities import NAMES, parse_bandwidth, parse_bytes, parse_dtype
from explorer.words.arguments import in_python
from solvers.errors import InvalidPlan, InvalidProblem, PlacementError, TraceError
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.problem.graph import OpGraph
from solvers.search.monitor import never

if TYPE_CHECKING:
    import torch

    from explorer.exports.configurations.comparison import Configured
    from explorer.exports.configurations.configuration import Configuration
    from explorer.notebook.widget import PlacementWidget
    from explorer.question.settings import Value
    from explorer.reviews.difference import Difference
    from explorer.reviews.review import Review
    from explorer.runner.training.batches import Batches
    from explorer.runner.training.optimizing import Schedule
    from explorer.runner.training.refusals import Factory, Loss
    from explorer.runner.training.training import Training
    from explorer.sweeps.answers import Sweep
    from explorer.sweeps.inference.search import Served
    from explorer.sweeps.sweep import Row
    from explorer.sweeps.why_here import WhyHere
    from explorer.view.graph.palette import Theme
    from solvers.formats.plan_json import PlanFile
    from solvers.search.planner import Planner


F = TypeVar("F", bound=Callable[..., object])


class ExampleSizes(TypedDict, total=False):
    """Of the example that a model is traced with: see `explorer.question.models.example.Example`."""

    batch: int | None
    sequence: int | None
    image: int | None
    batch_dim: int | None
    expert_rows: int | None
    tensor_parallel: int | None
    sequence_parallel: int | None
    tensor_parallel_of: str | None
    context_parallel: int | None
    expert_parallel: int | None
    expert_load: float | str | None
    redundant_experts: int | None


class SweepTerms(TypedDict, total=False):
    """How the points of a sweep are searched: see `sweep`."""

    pipelines: Sequence[str]
    recomputes: Sequence[str]
    one_at_a_time: bool
    on_row: Callable[[Row], None]
    fresh: bool
    effort: str
    time_limit_s: float
    seed: int
    should_stop: Callable[[], bool]
    library: bool | str | os.PathLike[str]
    search_again: bool


class TrainingTerms(TypedDict, total=False):
    """How a model is trained: see `launch`."""

    schedule: Schedule | None
    clip: float | None
    accumulate: int
    seed: int
    resume: str | os.PathLike[str] | None


EXAMPLE: ExampleSizes = {
    "batch": None, "sequence": None, "image": None, "batch_dim": None, "expert_rows": None, "tensor_parallel": None,
    "sequence_parallel": None, "tensor_parallel_of": None, "context_parallel": None, "expert_parallel": None,
    "expert_load": None, "redundant_experts": None,
}  # fmt: skip
SWEEP: SweepTerms = {
    "pipelines": (), "recomputes": (), "one_at_a_time": False, "fresh": False, "effort": "normal",
    "time_limit_s": 60.0, "seed": 0, "should_stop": never, "library": False, "search_again": False,
    "on_row": lambda _: None,
}  # fmt: skip
TRAINING: TrainingTerms = {"schedule": None, "clip": None, "accumulate": 1, "seed": 0, "resume": None}


def _signature(function: Callable[..., object], usual: Mapping[str, object]) -> inspect.Signature:
    """A function's signature with the names of ``usual`` in place of its last argument, ``**names``.

    They stand before its other arguments by name.
    """
    whole = inspect.signature(function)
    *own, _ = whole.parameters.values()
    first = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    flat = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
        for name, value in usual.items()
        if name not in whole.parameters
    ]
    return whole.replace(parameters=[*first, *flat, *own[len(first) :]])


def _with_usual(usual: Mapping[str, object]) -> Callable[[F], F]:
    """A function that is given ``usual`` for what a caller leaves out, and takes no other names."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(*args: object, **given: object) -> object:
            signature.bind(*args, **given)
            return function(*args, **{**usual, **given})

        signature = _signature(function, usual)
        called.__signature__ = signature  # type: ignore[attr-defined]
        return cast(F, called)

    return decorate


FLAGS = {one.flag[2:]: one.name for one in PLAN}
"""Flags by what stands after "--", with the names of their arguments."""


@contextmanager
def _naming_arguments() -> Iterator[None]:
    """What is raised within it names the arguments of `trace` and `plan` in place of flags."""
    try:
        yield
    except PlacementError as error:
        arguments = {name for function in (trace, plan) for name in inspect.signature(function).parameters}
        kinds = [one.kind for one in PLAN if isinstance(one.kind, Choice)]
        values = {*NAMES, *(value for kind in kinds for value in kind.values())}
        error.args = tuple(
            in_python(one, arguments, values, FLAGS) if isinstance(one, str) else one for one in error.args
        )
        raise


@_with_usual(EXAMPLE)
@_naming_arguments()
def trace(
    model: torch.nn.Module | str,
    example_inputs: object = None,
    *,
    example_kwargs: dict[str, object] | None = None,
    name: str | None = None,
    training: bool | None = None,
    dtype: torch.dtype | str | None = None,
    **example: Unpack[ExampleSizes],
) -> Workload:
    """The operator graph of a module, or of a model by name.

    model: a module, on any device or on meta; or whatever the command line takes for a MODEL.
    example_inputs: a tensor, a tuple of arguments or a dict by name. Only shapes and dtypes matter.
    example_kwargs: more arguments, by name.
    name: what the graph is called; by default the module's class.
    training: whether with backward and update; by default yes, but for a .pt2 that was exported in eval mode.
    dtype: traced in this dtype ("bf16", "bfloat16", torch.bfloat16, ...) in place of the module's.
    batch, sequence, image: samples, tokens of a sample and pixels of a side of the example of a model by name.
    batch_dim: the dimension of the first input that counts samples; by default the first.
    expert_rows: rows that a selection by value takes, such as the tokens of an expert.
    tensor_parallel: devices over which every tensor is divided; such a group is one device to a planner.
    sequence_parallel: 0 keeps tokens together outside of attention and products, too.
    tensor_parallel_of: parts of the model with a degree each, "vision:2+layers.16-31:8"; all else has tensor_parallel.
    context_parallel: devices over which the tokens of a sample are divided; beside tensor_parallel, groups that divide
        tensors.
    expert_parallel: devices over which samples and the experts of mixtures are divided; likewise.
    expert_load: load of the device whose experts are chosen most over the mean (1), or a JSON file of tokens by expert.
    redundant_experts: experts of a mixture that the devices of a group hold beyond one of each, with such a file.

    Raises TraceError for a module that cannot be traced, InvalidProblem for arguments that make no sense.
    """
    if _is_named_dtype(dtype):
        dtype = parse_dtype(str(dtype))
    if isinstance(model, str):
        return _trace_named(model, example, training, dtype)
    if any(example[size] is not None for size in ("batch", "sequence", "image")):
        raise InvalidProblem("batch, sequence and image are for models by name; a module is given example inputs")
    if example_inputs is None and example_kwargs is None:
        raise InvalidProblem("trace needs example inputs: explorer.trace(module, (tensor, ...))")
    try:
        from explorer.tracing import trace_module
    except ModuleNotFoundError as error:
        raise TraceError("tracing a module needs PyTorch; pip install 'placement-explorer[torch]'") from error
    from explorer.question.loading import divider_of

    of = Example(**{**example, "expert_load": None})  # type: ignore[arg-type]
    load, packing = load_of(of, example["expert_load"])
    traced = trace_module(
        model,
        () if example_inputs is None else example_inputs,
        example_kwargs=example_kwargs,
        name=name or type(model).__name__,
        training=training is not False,
        dtype=dtype,
        batch_dim=example["batch_dim"],
        expert_rows=example["expert_rows"],
        divide=divider_of(replace(of, expert_load=load), dtype),
    )
    return packing.noted(traced) if packing else traced


def _trace_named(model: str, example: ExampleSizes, training: bool | None, dtype: torch.dtype | str | None) -> Workload:
    from explorer.question.loading import load

    named = join_example(model, **{**example, "expert_load": None})  # type: ignore[arg-type]
    expert_load, packing = load_of(split_example(named)[1], example["expert_load"])
    workload = load(join_example(named, expert_load=expert_load), training=training, dtype=dtype)
    return workload if packing is None else packing.noted(workload)


@_naming_arguments()
def plan(
    model: Workload | OpGraph | str,
    devices: int | ClusterSettings | None = None,
    memory: str | float | Sequence[str | float] | MemorySettings | None = None,
    planner: str | Planner | SearchSettings = "auto",
    *,
    start: Plan | Result | Configured | None = None,
    should_stop: Callable[[], bool] = never,
    library: bool | str | os.PathLike[str] = False,
    fresh: bool = False,
    **settings: Value,
) -> Result:
    """The best plan found for ``model``, with a proved bound.

    model: what `trace` returned, or a name that it takes; "gpt,tensor-parallel=auto" for the best over all degrees of
    tensor parallelism, whose table is the result's ``by_degrees``.
    settings: by their names, each of docs/settings.md (``devices=4, memory="16GiB", effort="quick"``), or in groups:
    ``cluster=ClusterSettings(...)``, ``memory=MemorySettings(...)``, ``training=TrainingSettings(...)``,
    ``pipeline=PipelineSettings(...)``, ``search=SearchSettings(...)``. Sizes are numbers (bytes, bytes/s, seconds) or
    text ("16GiB"). What is None is as the model states, or else the command line's default.
    start: a plan of the same model to start from, made for other devices, caps or batches maybe; of what `configured`
    gave, its settings count where no others are given.
    devices, memory: the settings that are asked for most, also by position.
    planner: a name of `placement-explorer planners`, or a planner.
    should_stop: polled while it searches; True ends the search.
    library: True for that of the user, or the path of one: cached answers are reused (a note says of which date), new
    ones are cached. Without, the answer depends on nothing but the arguments and the code.
    fresh: search even what is cached.

    Ctrl-C ends the search: the result is the best plan so far, with stop_reason CANCELLED; without a plan yet, and the
    second time, it is a KeyboardInterrupt.
    Raises InvalidProblem or UnsupportedProblem. That nothing fits is a status of the result.
    """
    question = question_of({"devices": devices, "memory": memory, "planner": planner, **settings})
    if not (start is None or isinstance(start, Plan | Result)):
        model, question = _as_configured(model, start.configuration, question)
    from explorer.runner.scripts.with_engine import runtime_estimator

    if isinstance(model, str) and searches_degrees(model):
        return _over_degrees(model, question, should_stop, _library(library), fresh)
    workload = _divided(model, question) if isinstance(model, str) else workload_of(model)
    problem = make_problem(workload, question)
    with noting(_library(library), workload.reference, fresh) as (solver, noted), _until_interrupted() as interrupted:
        result = noted(
            solver(
                problem,
                question.chosen_planner(),
                start=start if start is None or isinstance(start, Plan) else start.plan,
                effort=question.effort,
                time_limit_s=question.time_limit_s,
                gap=question.gap,
                seed=question.seed,
                should_stop=lambda: interrupted.is_set() or should_stop(),
                second=runtime_estimator(problem),
            )
        )
    if interrupted.is_set() and result.plan is None:
        raise KeyboardInterrupt
    return result


@_naming_arguments()
def configured(model: Workload | OpGraph | str, configuration: str, **settings: Value) -> Configured:
    """The plan that a launcher's configuration comes to: `problem`, `plan`, `objective_s` and `peak_bytes`.

    `violation` is the rule that it breaks, such as a cap, "" for none. The file is read as data: nothing of it is run.
    `plan` with it as ``start`` searches from there.

    model: as for `plan`; by a name it is divided as the file says.
    configuration: "megatron:train.sh" or "torchtitan:llama3_8b.toml".
    settings: as for `plan`; degrees, batches, precision, recomputation, ZeRO and the schedule are the file's.

    Raises InvalidProblem, in one line, for a file that cannot be read so, or a model of another number of layers.
    """
    from explorer.exports.configurations.comparison import configured as judged
    from explorer.exports.configurations.configured import read_configuration

    read = read_configuration(configuration)
    if isinstance(model, str) and searches_degrees(model):
        model = of_degree(model, read.tensor)
    model, question = _as_configured(model, read, question_of(settings))
    return judged(read, _divided(model, question) if isinstance(model, str) else workload_of(model), question)


def _as_configured(
    model: Workload | OpGraph | str, configuration: Configuration, question: Question
) -> tuple[Workload | OpGraph | str, Question]:
    """A model by its name divided as a configuration says, and a question with its settings where it has none."""
    from explorer.exports.configurations.comparison import configured_settings, named_model

    given = {one.name: getattr(question, one.field) for one in PLAN}
    given = {one.name: given[one.name] for one in PLAN if given[one.name] != one.default}
    merged = Question(**{**configured_settings(configuration, question), **given})
    return (named_model(model, configuration) if isinstance(model, str) else model), merged


def _divided(model: str, question: Question) -> Workload:
    """A model by its name, divided for the devices of the question where its name says that it is divided."""
    from explorer.question.loading import load as loaded
    from explorer.sweeps.divided import DividedModel, has_degree

    if has_degree(model):
        return DividedModel(model, question.training, question.dtype, settings=question).as_named()
    return loaded(model, training=question.training, dtype=question.dtype)


def _over_degrees(
    model: str, question: Question, should_stop: Callable[[], bool], library: Path | None, fresh: bool
) -> Result:
    """The best answer of all degrees of tensor parallelism, with the table over them."""
    from explorer.question.clusters import make_cluster
    from explorer.runner.scripts.with_engine import runtime_estimator
    from explorer.sweeps.degrees import search_degrees
    from explorer.sweeps.divided import DividedModel

    divided = DividedModel(model, question.training, question.dtype, settings=question)
    terms: Terms = {"effort": question.effort, "time_limit_s": question.time_limit_s, "gap": question.gap}
    with noting(library, model, fresh) as (solver, noted), _until_interrupted() as interrupted:
        search = search_degrees(
            divided.at,
            question,
            make_cluster(divided.at(1), question),
            question.chosen_planner(),
            terms={**terms, "seed": question.seed},
            should_stop=lambda: interrupted.is_set() or should_stop(),
            solver=lambda problem, *given, **more: solver(problem, *given, second=runtime_estimator(problem), **more),
        )
        result = noted(search.result)
    if interrupted.is_set() and result.plan is None:
        raise KeyboardInterrupt
    return result


plan.__signature__ = _signature(plan, {one.name: one.default for one in PLAN})  # type: ignore[attr-defined]


def load(path: str) -> Result:
    """The result in a plan.json, as `export` to "plan" wrote it, without its trace and front.

    Raises InvalidProblem for a file that is none, or holds a plan without a result; InvalidPlan if the plan breaks a
    rule, or has another objective than the file says.
    """
    from explorer.reviews.review import rules_broken

    file = _plan_file(path)
    if file.result is None:
        raise InvalidProblem(f"{path}: holds a plan and no result; `explorer.review` looks it over")
    if broken := rules_broken(file.problem, file.plan, file.result):
        raise InvalidPlan(f"{path}: the plan breaks a rule: {broken[0]}")
    return file.result


def review(plan: Result | PlanFile | str) -> Review:
    """What speaks for and against a plan: `lines`, `verdict` and `plan_sha256`.

    Each line has a verdict and its reason; `verdict` is the worst of them. What is wrong with a plan is a line.

    plan: what `plan` returned, or a plan.json by its path or as `read_plan` gives it.

    Raises InvalidProblem for a result without a plan, or a file that is none.
    """
    from explorer.reviews.review import review as look_over

    file = _plan_file(plan)
    return look_over(file.problem, file.plan, file.result)


def export(
    plan: Result | PlanFile | str, to: str, path: str | None = None, *, theme: Theme = "light", nearest: bool = False
) -> bytes:  # fmt: skip
    """A plan in another format: its bytes, written to ``path`` if there is one.

    plan: a result, or a plan.json by its path or as it was read.
    to: "plan", "placement-csv", "gantt-svg", "megatron", ...: a name of `explorer.exports.formats.FORMATS`.
    path: the file to write.
    theme: of pictures.
    nearest: for launchers that place whole modules, each in the stage that does most of its work; what that changes,
        and what the file leaves out, is reported by `explorer.exports.formats.export`.

    Raises PlacementError, in one line, also where a launcher cannot run the plan.
    """
    from explorer.exports.formats import export_bytes
    from explorer.files import write_file

    content = export_bytes(_plan_file(plan), to, theme, nearest=nearest)
    if path is not None:
        write_file(path, content, f"saving the plan as {to}")
    return content


def diff(first: Result | PlanFile | str, second: Result | PlanFile | str) -> Difference:
    """What differs between two plans of one graph: `moved`, by module, and `metrics` of both.

    The plans may be for different devices or numbers of micro-batches.

    Raises InvalidProblem, with both hashes, for plans of different graphs.
    """
    from explorer.reviews.difference import difference

    a, b = _plan_file(first), _plan_file(second)
    return difference((a.problem, a.plan), (b.problem, b.plan))


def why_here(plan: Result | PlanFile | str, operator: str) -> WhyHere:
    """What it would cost to have an operator, or all of a module, on each other device.

    `moves` has a plan for each device, evaluated, with ``delta_s``, the change of the objective, or None and the rule
    that forbids it. Operators that must share a device move together. Printed, it is a table.

    Raises InvalidProblem for a name that is neither, with the closest that is.
    """
    from explorer.question.names import Names
    from explorer.sweeps.why_here import why_here as tried

    file = _plan_file(plan)
    return tried(file.problem, file.plan, Names(file.problem.graph).operators(operator, "why here"))


def show(result: Result) -> PlacementWidget:
    """The widget with a result in it, to look at and to go on from: the last line of a notebook's cell.

    Raises ImportError without the extra [widget]; elsewhere than in a notebook, `placement-explorer app` is the same.
    """
    from explorer.notebook.loading import widget_class

    if not isinstance(result, Result):
        raise InvalidProblem(f"expected what explorer.plan returns, found {type(result).__name__}")
    return widget_class().of(result)


@_naming_arguments()
def decode(
    model: str,
    devices: int | ClusterSettings | None = None,
    *,
    prompt: int,
    context: int,
    dtype: str | None = None,
    latent: str | None = None,
    causal: bool = False,
    should_stop: Callable[[], bool] = never,
    **settings: Value,
) -> Served:
    """Ways to serve a decoder on a cluster: throughput against time per token.

    Returns `points`, those on the Pareto front as `front`, and `best(time_per_token_s)`; the `result` of a point is the
    plan of its decode phase, as `plan` gives one.

    model: a name that `trace` takes and that is traced here.
    devices, settings: of the cluster of all replicas, its memory (memory="80GiB") and what runs, as in `plan`.
    prompt, context: tokens of a prompt, and of a sequence at the most.
    dtype: traced in this dtype ("bf16", ...) in place of the model's.
    latent: what latent attention keeps of a token, "512+64" in DeepSeek-V3; None where keys and values are kept.
    causal: whether masks that the model makes itself are causal.
    should_stop: polled between questions; True ends the search with what was found.

    Raises InvalidProblem or TraceError for what is no decoder. That nothing fits is an answer without points.
    """
    from explorer.sweeps.inference.decoder import Decoder
    from explorer.sweeps.inference.kv_cache import Latent
    from explorer.sweeps.inference.search import serve

    question = question_of({"devices": devices, **settings})
    latent_size = None if latent is None else Latent.parse(latent)
    traced_in = None if dtype is None else parse_dtype(dtype)
    decoder = Decoder(model, prompt, context, dtype=traced_in, latent=latent_size, causal=causal)
    return serve(decoder, question, should_stop=should_stop)


@_with_usual(SWEEP)
@_naming_arguments()
def sweep(
    model: Workload | OpGraph | str,
    devices: Sequence[int] = (),
    memory: Sequence[str | float] = (),
    planner: str | Planner = "auto",
    *,
    micro_batches: Sequence[int] = (),
    bandwidth: Sequence[str | float] = (),
    settings: Settings | None = None,
    **terms: Unpack[SweepTerms],
) -> Sweep:
    """A plan at every combination of devices, memory, micro-batches, bandwidths, pipelines and ways to recompute.

    Returns rows with `point`, `status`, `result` and `metrics`; where nothing fits is a row, too. A notebook shows the
    rows with their curve, over memory caps a line for each pipeline and way to recompute.

    model: what `trace` returned, or a name that it takes.
    devices, memory, micro_batches, bandwidth, pipelines, recomputes: the values that are swept (recomputes: of the
        setting ``recompute``); sizes as text or in bytes.
    planner: of every row.
    settings: all that is not swept.
    on_row: called with each row as it is solved.
    one_at_a_time: vary one of them at a time, in place of every combination.
    fresh: no row starts from another one's plan (see `explorer.sweeps.sweep`).
    effort, time_limit_s, seed: of every search, as in `plan`.
    should_stop: polled between and during searches; True ends the sweep.
    library: as in `plan`, for every row.
    search_again: search also what the library has.

    Raises InvalidProblem if there is nothing to sweep, or too much.
    """
    from explorer.sweeps.answers import Sweep
    from explorer.sweeps.execution.questions import Limits
    from explorer.sweeps.points import Axes, pipeline, points, recompute
    from explorer.sweeps.sweep import sweep_rows

    workload = workload_of(model)
    axes = Axes(
        tuple(devices),
        tuple(micro_batches),
        tuple(parse_bandwidth(rate) if isinstance(rate, str) else rate for rate in bandwidth),
        tuple(parse_bytes(size) if isinstance(size, str) else size for size in memory),
        tuple(pipeline(each) for each in terms["pipelines"]),
        tuple(recompute(each) for each in terms["recomputes"]),
    )
    rows: list[Row] = []
    with noting(_library(terms["library"]), workload.reference, terms["search_again"]) as (solver, noted):
        for row in sweep_rows(
            workload,
            settings or Settings(),
            points(axes, one_at_a_time=terms["one_at_a_time"]),
            choose_planner(planner) if isinstance(planner, str) else planner,
            Limits(SearchSettings(effort=terms["effort"]).effort, terms["time_limit_s"], seed=terms["seed"]),
            fresh=terms["fresh"],
            should_stop=terms["should_stop"],
            solver=lambda *args, **options: noted(solver(*args, **options)),
        ):
            rows.append(row)
            terms["on_row"](row)
    return Sweep(rows)


@_with_usual(TRAINING)
def launch(
    plan: Result | PlanFile | str,
    *,
    model: torch.nn.Module | Callable[[], object] | str,
    optimizer: Factory,
    batches: Batches,
    loss: Loss | None = None,
    backend: Literal["auto", "cpu", "cuda"] = "auto",
    **terms: Unpack[TrainingTerms],
) -> Training:
    """Train a model as a plan says, in a script under torchrun, which starts a process for each device of the plan.

    A plan for one device needs no torchrun. ``for step in explorer.launch(...)`` trains step by step and gives the loss
    of each; `Training.save` and `Training.full_state_dict` write the trained parameters.

    model: what makes (module, example inputs), so that each rank makes its own part, with values by ``seed``; or a
    module with its values; or a name. It must trace to the graph that was planned.
    optimizer: parameters -> their optimizer; one that keeps as many states as the plan counts.
    batches: the plan's mini-batches, the same on every rank: tensors, tuples of arguments or dicts by name; what is
    given goes on from the one after those of ``resume``, by skipping, or by being called with that number.
    loss: (output, targets) -> the mean loss of their samples, where mini-batches are (inputs, targets); None: the model
    returns its loss.
    schedule: optimizer -> its LRScheduler. clip: the largest norm of all gradients together. accumulate: mini-batches
    of one step. resume: a folder that `Training.save` wrote, from this plan or another one of the model; its seed goes
    on.

    Raises PlacementError in the same line on every rank, before the first step, if one of them does not fit the plan.
    """
    from explorer.runner.training.launch import Wanted
    from explorer.runner.training.launch import launch as begin

    wanted = Wanted(model=model, optimizer=optimizer, batches=batches, loss=loss, **terms)
    return begin(_plan_file(plan), wanted, backend)


@contextmanager
def _until_interrupted() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets, where that would raise KeyboardInterrupt.

    That is in the main thread of a program that has not installed a handler.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield threading.Event()
        return
    from explorer.cli.terminal.progress import stop_on_interrupt

    with stop_on_interrupt((signal.SIGINT,)) as stop:
        yield stop


def _is_named_dtype(dtype: object) -> bool:
    """Whether a dtype is one that models by name are traced in, or a text; another of torch is as it is."""
    return isinstance(dtype, str) or str(dtype).removeprefix("torch.") in NAMES


def _library(given: bool | str | os.PathLike[str]) -> Path | None:
    """The path of the library that is meant, None for none. Raises InvalidProblem."""
    if isinstance(given, bool):
        return library_path() if given else None
    if not isinstance(given, str | os.PathLike):
        raise InvalidProblem(f"library must be True, False or the path of a file, found {type(given).__name__}")
    return path_of(os.fspath(given))


def _plan_file(plan: Result | PlanFile | str) -> PlanFile:
    from explorer.question.loading import read_file
    from solvers.formats.plan_json import PlanFile, read_plan

    if isinstance(plan, str):
        return read_plan(read_file(plan), plan)
    if isinstance(plan, PlanFile):
        return plan
    if not isinstance(plan, Result):
        raise InvalidProblem(
            f"expected what explorer.plan returns, or the path of a plan.json; found {type(plan).__name__}"
        )
    if plan.plan is None:
        raise InvalidProblem(f"the result has no plan: its status is {plan.status.value}")
    return PlanFile(plan.problem, plan.plan, plan, plan.problem.graph.name)
