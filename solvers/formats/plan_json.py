"""plan.json: a plan with everything it was judged by, in one file.

Version 1 is a plan that states no order of messages, version 2 one that does. Version 3 is one on many devices: where
a list of devices may have "0-127" for 128 of them, and the order names devices that do the same as one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from solvers.errors import InvalidPlan, InvalidProblem, PlacementError
from solvers.formats.graph_json import read_header
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, parse_json
from solvers.formats.number_runs import ONE_BY_ONE, read_runs, runs
from solvers.formats.op_graph_json import graph_hash, graph_json, read_op_graph
from solvers.formats.problem_json import problem_json, read_problem
from solvers.formats.result_json import read_result, result_json
from solvers.plan.order_check import check_order
from solvers.plan.plan import Action, Message, MessageOrder, Plan, Region, Stage, parse_action, parse_message
from solvers.plan.regions import with_regions, without_regions
from solvers.plan.result import Result
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import Problem

T = TypeVar("T")
FORMAT = "placement-explorer/plan"
VERSIONS = (1, 2, 3)
"""Those that are read."""
MAX_STAGES = 1_000_000
MAX_ACTIONS = 10_000_000
MAX_MESSAGES = 10_000_000
MAX_LINKS = 1_000_000


class PlanFile(NamedTuple):
    """What a plan.json holds. reference says where the model comes from; it is never run here."""

    problem: Problem
    plan: Plan
    result: Result | None
    reference: str


def write_plan(problem: Problem, plan: Plan, result: Result | None = None, reference: str = "") -> str:
    """The text of a plan.json. `read_plan` of it gives all four back (the result without its trace)."""
    problem = without_regions(problem)
    return dump_json(
        {
            "format": FORMAT,
            "version": VERSIONS[2 if len(plan.order) > ONE_BY_ONE else bool(plan.messages)],
            "model": {"reference": reference, "samples": problem.graph.samples},
            "graph_sha256": graph_hash(problem.as_traced.graph),
            "problem": problem_json(problem),
            "plan": plan_part(plan),
            "result": None if result is None else result_json(result),
            "graph": graph_json(problem.as_traced.graph),
        }
    )


def read_plan(data: bytes | str | object, where: str = "plan.json") -> PlanFile:
    """The parts of a plan.json (its text, or its parsed value).

    Checked here: types, ranges, limits, that the graph is the one that the hash names, that the order runs all that
    the stages hold (`order_check`), and that links whose order is stated serve all that crosses them
    (`evaluation.message_order`). Whether the plan keeps the problem's rules is `check`'s to tell. Raises
    InvalidProblem or InvalidPlan.
    """
    value = parse_json(data, where) if isinstance(data, bytes | str) else data
    parts = read_header(
        Field(value, f"{where}:"), FORMAT, VERSIONS, ("model", "graph_sha256", "problem", "plan", "graph"), ("result",)
    )
    model = parts["model"].fields(("reference",), ("samples",))
    graph = read_op_graph(parts["graph"])
    stated, actual = parts["graph_sha256"].text(), graph_hash(graph)
    if stated != actual:
        raise InvalidProblem(
            f"{parts['graph_sha256'].where}: the embedded graph is not the one that was planned:"
            f" expected sha256 {stated[:12]}..., found {actual[:12]}..."
        )
    problem = read_problem(parts["problem"], graph)
    version, whole = parts["version"].value, parts["plan"].value
    states = isinstance(whole, dict) and "messages" in whole if version == VERSIONS[2] else version == VERSIONS[1]
    plan = read_plan_part(parts["plan"], problem, stated=states)
    problem = with_regions(problem, plan)
    result = parts.get("result")
    answer = None if result is None or result.is_null else read_result(result, problem, plan)
    return PlanFile(problem, plan, answer, model["reference"].text())


def plan_part(plan: Plan) -> dict[str, object]:
    """The plan alone, as `write_plan` has it: for whoever has its problem. `read_plan_part` reads it."""
    many = len(plan.order) > ONE_BY_ONE
    stages = [
        {
            "operators": list(stage.operators),
            "devices": runs(stage.devices) if many else list(stage.devices),
            "micro_batch_size": stage.micro_batch_size,
            "in_flight": stage.in_flight,
            "recompute": stage.recompute,
            **({"offload": list(stage.offload)} if stage.offload else {}),
            **({"regions": [_region_json(region) for region in stage.regions]} if stage.regions else {}),
        }
        for stage in plan.stages
    ]
    order = _order_by_class(plan) if many else [list(map(str, actions)) for actions in plan.order]
    fields: dict[str, object] = {"pipeline": plan.pipeline, "stages": stages, "order": order}
    if plan.messages:
        fields["messages"] = messages_json(plan)
    return fields


def _region_json(region: Region) -> dict[str, list[int]]:
    return {"operators": list(region.operators), **({"cached": list(region.cached)} if region.cached else {})}


def _order_by_class(plan: Plan) -> list[dict[str, object]]:
    """The actions of devices that do the same, once; devices that do nothing are left out."""
    alike: dict[tuple[Action, ...], list[int]] = {}
    for device, actions in enumerate(plan.order):
        if actions:
            alike.setdefault(actions, []).append(device)
    return [{"devices": runs(devices), "actions": list(map(str, actions))} for actions, devices in alike.items()]


def read_plan_part(field: Field, problem: Problem, *, stated: bool) -> Plan:
    """The plan that `plan_part` wrote, checked as `read_plan` does. stated: whether it has an order of messages. Raises
    InvalidProblem or InvalidPlan."""
    plan = read_other_plan(field, problem.graph, len(problem.cluster), stated=stated)
    try:
        check_order(problem, plan)
        if plan.messages:
            from solvers.evaluation.lower import check_messages  # kernels are slow to import

            check_messages(problem, plan)
    except InvalidPlan as error:
        raise InvalidPlan(f"{field.where}.{error}") from None
    return plan


def messages_json(plan: Plan) -> dict[str, list[str]]:
    """By link, in the order in which it serves them; {} if the plan states none."""
    return {link: [str(message) for message in messages] for link, messages in plan.messages}


def read_other_plan(field: Field, graph: OpGraph, devices: int, *, stated: bool) -> Plan:
    """The plan that `plan_part` wrote for another question about ``graph``, on ``devices`` devices: types, ranges and
    limits are checked, and not whether it runs, which whoever takes it over has to find out. Raises as
    `read_plan_part`."""
    parts = field.fields(("pipeline", "stages", "order", *["messages"][:stated]))
    stages = tuple(_read_stage(item, graph, devices) for item in parts["stages"].items(MAX_STAGES))
    order = _read_order(parts["order"], len(stages), devices)
    messages: MessageOrder = ()
    if stated:
        messages = tuple(
            (link, tuple(_read_message(item, len(stages), devices) for item in row.items(MAX_MESSAGES)))
            for link, row in parts["messages"].mapping(MAX_LINKS).items()
        )
    return Plan(stages, order, parts["pipeline"].text(), messages)


def _read_order(field: Field, stages: int, devices: int) -> tuple[tuple[Action, ...], ...]:
    """Device by device, or by those that do the same."""
    if not isinstance(field.value, list) or not any(isinstance(item, dict) for item in field.value):
        return tuple(
            tuple(_read_action(item, stages) for item in actions.items(MAX_ACTIONS))
            for actions in field.items(devices, exactly=devices)
        )
    order: list[tuple[Action, ...]] = [()] * devices
    total = 0
    for alike in field.items(devices):
        parts = alike.fields(("devices", "actions"))
        actions = tuple(_read_action(item, stages) for item in parts["actions"].items(MAX_ACTIONS))
        those = read_runs(parts["devices"], devices, devices - 1)
        total += len(actions) * len(those)
        if total > MAX_ACTIONS:
            field.refuse(f"at most {MAX_ACTIONS:,} actions")
        for device in those:
            if order[device]:
                parts["devices"].refuse(f"every device once (device {device} is there twice)")
            order[device] = actions
    return tuple(order)


def _read_stage(field: Field, graph: OpGraph, devices: int) -> Stage:
    operators = len(graph)
    parts = field.fields(("operators", "devices"), ("micro_batch_size", "in_flight", "recompute", "offload", "regions"))
    members = tuple(item.integer(0, operators - 1) for item in parts["operators"].items(operators))
    try:
        return Stage(
            members,
            read_runs(parts["devices"], devices, devices - 1),
            parts["micro_batch_size"].integer(1) if "micro_batch_size" in parts else 1,
            parts["in_flight"].integer(1) if "in_flight" in parts else 1,
            parts["recompute"].flag() if "recompute" in parts else False,
            _read_offload(parts["offload"], graph, members) if "offload" in parts else (),
            tuple(_read_region(item, operators) for item in parts["regions"].items(operators))
            if "regions" in parts
            else (),
        )
    except InvalidPlan as error:
        raise InvalidPlan(f"{field.where}: {error}") from None


def _read_offload(field: Field, graph: OpGraph, stage: tuple[int, ...]) -> tuple[int, ...]:
    """Operators; in files of whole stages that offload, whether all of the stage's do."""
    if not isinstance(field.value, bool):
        return tuple(item.integer(0, len(graph) - 1) for item in field.items(len(graph)))
    forward = (o for o in stage if graph.operators[o].phase is Phase.FORWARD)
    return tuple(forward) if field.flag() else ()


def _read_region(field: Field, operators: int) -> Region:
    parts = field.fields(("operators",), ("cached",))
    return Region(*(
        tuple(item.integer(0, operators - 1) for item in parts[name].items(operators)) if name in parts else ()
        for name in ("operators", "cached")
    ))  # fmt: skip


def _parsed(field: Field, parse: Callable[[str], T]) -> T:
    try:
        return parse(field.text(64))
    except PlacementError as error:
        raise InvalidPlan(f"{field.where}: {error}") from None


def _read_action(field: Field, stages: int) -> Action:
    action = _parsed(field, parse_action)
    if action.stage >= stages:
        raise InvalidPlan(f"{field.where}: {action} names stage {action.stage}, but there are {stages} stages")
    return action


def _read_message(field: Field, stages: int, devices: int) -> Message:
    message = _parsed(field, parse_message)
    if message.action.stage >= stages or message.to_device >= devices:
        raise InvalidPlan(
            f"{field.where}: {message} names stage {message.action.stage} and device {message.to_device}, but there are"
            f" {stages} stages and {devices} devices"
        )
    return message
