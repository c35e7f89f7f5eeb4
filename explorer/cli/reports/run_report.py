"""A run for people and for programs."""

from __future__ import annotations

import math
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING

from explorer.cli.reports.report import result_object
from explorer.cli.terminal.command import print_table
from explorer.costs.interval import and_interval, interval
from explorer.runner.bundles.bundle import Bundle, predicted_s
from explorer.runner.bundles.outcome import Agreement, Environment, Outcome, noise_word
from explorer.runner.bundles.reproduce import command_line
from explorer.runner.bundles.request import RunRequest
from explorer.runner.bundles.words import one_line
from explorer.runner.scripts.executable import processes
from explorer.view.timeline.exchanges import of_iteration
from explorer.view.timeline.sent import within_groups
from explorer.words import text
from solvers.errors import PlacementError
from solvers.evaluation.evaluate import evaluate, judge
from solvers.formats.json_text import finite_or_none
from solvers.formats.plan_json import PlanFile
from solvers.plan.result import Result, Status, StopReason

if TYPE_CHECKING:
    from explorer.measured import Comparison

SHOWN_NOTES = 20
WORST = 5
"""Actions and operators that are listed, those first that are furthest off."""


def run_object(file: PlanFile, bundle: Bundle, target: str, request: RunRequest, outcome: Outcome) -> dict[str, object]:
    """What ``run --json`` prints: the object of ``plan --json``; run, how it went; measured, the times (null where
    nothing was measured); comparison, measured beside predicted (null likewise)."""
    from explorer.measured import comparison_object

    problem, plan = file.problem, file.plan
    comparison = compared(file, outcome)
    took_s = judge(problem, plan).objective_s
    given = Result(problem, plan, Status.FEASIBLE, StopReason.FINISHED, took_s, 0.0, 0.0, "given")
    ranks, expected_s = processes(problem, plan), predicted_s(file)
    within = interval(problem, plan, expected_s)
    return {
        **result_object(file.reference, file.result or given),
        "run": {
            "status": outcome.status.value,
            "reason": outcome.reason,
            "culprit": None if outcome.culprit < 0 else outcome.culprit,
            "target": target,
            "ranks": ranks,
            "steps": request.steps,
            "warmup": request.warmup,
            "predicted_s": finite_or_none(expected_s),
            "predicted_interval_s": None if within is None else list(within),
            "noise": outcome.noise,
            "noise_word": noise_word(outcome.noise),
            "losses": [finite_or_none(loss) for loss in outcome.losses],
            "peak_memory_bytes": list(outcome.peak_bytes),
            "environment": None if outcome.environment is None else asdict(outcome.environment),
            "bundle": str(bundle.folder.absolute()),
            "command": command_line(bundle.folder),
            "notes": list(outcome.notes),
        },
        "measured": measured_object(outcome),
        "exchanges": exchanges_by_rank(file, outcome),
        "comparison": None if isinstance(comparison, str) else comparison_object(comparison),
    }


def measured_object(outcome: Outcome) -> dict[str, object] | None:
    """Seconds of an iteration, how far the run is from the whole model, and the actions of the iteration whose
    length is nearest to the median; None where no iteration was measured."""
    times = outcome.iterations_s
    if not times:
        return None
    middle = median(times)
    shown = min(range(len(times)), key=lambda i: (abs(times[i] - middle), i))
    agreement = outcome.agreement
    return {
        "iteration_s": {"min": min(times), "median": middle, "max": max(times)},
        "iterations_s": list(times),
        "loss_error": None if agreement is None else finite_or_none(agreement.loss),
        "gradient_error": None if agreement is None else finite_or_none(agreement.gradient),
        "parameter_error": None if agreement is None else finite_or_none(agreement.parameter),
        "compared_with": None if agreement is None else agreement.way.value,
        "iteration": shown,
        "actions": [
            {
                "rank": action.rank,
                "action": action.action,
                "start_s": action.start_s,
                "end_s": action.end_s,
                "wait_s": action.wait_s,
            }
            for action in outcome.actions
            if action.iteration == shown
        ],
    }


def print_run(file: PlanFile, bundle: Bundle, target: str, place: str, request: RunRequest, outcome: Outcome) -> None:
    """The run in a screenful, then what was measured beside what was predicted."""
    ranks = processes(file.problem, file.plan)
    print(f"{one_line(file.reference or file.problem.graph.name)}: {text.plural(ranks, 'rank')} on {target} ({place})")
    elsewhere = planned_for_others(file, outcome)
    if elsewhere is not None:
        kind, ran = elsewhere
        print(f"hardware   NOT what the plan is for: planned for {kind}, run on {ran}; times cannot be compared")
        if file.problem.graph.tensor_parallel == 1:
            print(
                "           `placement-explorer run PLAN --replan` measures this hardware, plans for it and runs that"
            )
    print(f"status     {outcome.status.value}")
    if outcome.reason:
        print(f"reason     {outcome.reason}")
    if outcome.environment is not None:
        for line in environment_lines(outcome.environment):
            print(line)
    if outcome.iterations_s:
        _print_measured(file, outcome, None if elsewhere is None else elsewhere[0])
    for note in outcome.notes[:SHOWN_NOTES]:
        print(f"note       {note}")
    if bundle.log.is_file():
        print(f"log        {bundle.log.absolute()}")
    print(f"bundle     {bundle.folder.absolute()}")
    print(f"again      {command_line(bundle.folder)}")
    if outcome.iterations_s:
        comparison = compared(file, outcome)
        if isinstance(comparison, str):
            print(f"note       {comparison}")
        else:
            print_comparison(file, comparison, same_hardware=elsewhere is None)


def traced_object(file: PlanFile, outcome: Outcome) -> dict[str, object]:
    """What ``run --from-trace --json`` prints: measured and comparison, as ``run --json`` has them, and notes."""
    from explorer.measured import comparison_object

    comparison = compared(file, outcome)
    return {
        "measured": measured_object(outcome),
        "peak_memory_bytes": list(outcome.peak_bytes),
        "environment": None if outcome.environment is None else asdict(outcome.environment),
        "comparison": None if isinstance(comparison, str) else comparison_object(comparison),
        "notes": [comparison] if isinstance(comparison, str) else list(comparison.notes),
    }


def print_traced(file: PlanFile, path: str, outcome: Outcome) -> None:
    """Traces of a run elsewhere, beside what was predicted."""
    ranks = len(outcome.rank_devices)
    print(f"{one_line(file.reference or file.problem.graph.name)}: traces of {text.plural(ranks, 'rank')} in {path}")
    elsewhere = planned_for_others(file, outcome)
    if elsewhere is not None:
        print(f"hardware   NOT what the plan is for: planned for {elsewhere[0]}, run on {elsewhere[1]}")
    _print_measured(file, outcome, None if elsewhere is None else elsewhere[0])
    comparison = compared(file, outcome)
    if isinstance(comparison, str):
        print(f"note       {comparison}")
        return
    _print_parts(comparison)
    print_comparison(file, comparison, same_hardware=elsewhere is None)


def _print_parts(comparison: Comparison) -> None:
    """What the peaks are made of, where that was measured."""
    rows = [
        [f"rank {device.rank}", part.name, text.nbytes(part.predicted_bytes), text.nbytes(part.measured_bytes)]
        for device in comparison.devices
        for part in device.parts
    ]
    if rows:
        print()
        print_table([["at its peak", "held", "predicted", "measured"], *rows], right=frozenset({2, 3}))


def planned_for_others(file: PlanFile, outcome: Outcome) -> tuple[str, str] | None:
    """(the kind of device planned for, the hardware of the run) where costs of the one say nothing of the other."""
    from explorer.measured import other_hardware

    return other_hardware(file.problem, outcome)


def _print_measured(file: PlanFile, outcome: Outcome, planned_for: str | None) -> None:
    """planned_for: other hardware, whose predicted times are shown without a comparison."""
    times, expected = outcome.iterations_s, predicted_s(file)
    middle = median(times)
    least, most, usual = text.seconds_alike([min(times), max(times), middle], 3)
    print(f"iteration  {usual} median of {len(times)}, from {least} to {most}")
    share = abs(expected - middle) / middle if middle > 0 else math.inf
    side = "shorter" if expected < middle else "longer"
    relation = f"on {planned_for}" if planned_for else f"({text.percent(share)} {side})"
    print(f"predicted  {text.seconds(expected)}{and_interval(file.problem, file.plan, expected)} {relation}")
    shown = "" if outcome.noise is None else f" ({text.percent(outcome.noise)} variation)"
    print(f"machine    {noise_word(outcome.noise)}{shown}")
    if outcome.losses:
        print(f"losses     first {outcome.losses[0]:.6g}, last {outcome.losses[-1]:.6g}")
    if outcome.agreement is not None:
        print(f"agreement  {agreement_words(outcome.agreement)}")
    if outcome.exchanges:
        print(f"exchange   {_exchanged(file, outcome)}")
    if outcome.peak_bytes:
        print(f"memory     peak {', '.join(_peaks(file, outcome))} by rank")


def _exchanged(file: PlanFile, outcome: Outcome) -> str:
    """What the rank that exchanged longest within its group did so, of an iteration, beside what was planned."""
    every = exchanges_by_rank(file, outcome)
    rank = max(range(len(every)), key=lambda each: sum(of["seconds"] for of in every[each].values()))
    exchanges = every[rank]
    kinds = ", ".join(f"{kind} {each['times']:,} x" for kind, each in exchanges.items())
    sent, planned, seconds = (
        sum(each[key] for each in exchanges.values()) for key in ("sent_bytes", "planned_bytes", "seconds")
    )
    ratio = sent / planned if planned else math.inf
    side = "as planned" if abs(ratio - 1) < 1e-6 else f"{ratio:.3g} times what was planned"
    predicted = of_iteration(file.problem, file.plan, outcome.rank_devices[rank])
    return (
        f"{kinds}, {text.nbytes(sent)} sent within the group of rank {rank}, {side}, in {text.seconds(seconds)}"
        f" (predicted {text.seconds(predicted)})"
    )


def exchanges_by_rank(file: PlanFile, outcome: Outcome) -> list[dict[str, dict[str, float]]]:
    """Of each rank, by kind of exchange: how often the first member of its group exchanged in an iteration, the bytes
    that it sent, those that were planned, and the seconds that it took, waiting for the others among them. Nothing
    where nothing was exchanged."""
    if not outcome.exchanges:
        return []
    planned = within_groups(file.problem, file.plan)
    iterations = len({each.iteration for each in outcome.exchanges})  # a long run's file has the first of them
    exchanges: list[dict[str, dict[str, float]]] = [{} for _ in outcome.rank_devices]
    for each in outcome.exchanges:
        if each.rank < len(exchanges):
            of_kind = exchanges[each.rank].setdefault(each.kind, {"times": 0, "sent_bytes": 0.0, "seconds": 0.0})
            of_kind["times"] += 1
            of_kind["sent_bytes"] += each.sent_bytes
            of_kind["seconds"] += each.end_s - each.start_s
    return [
        {
            kind: {
                "times": total["times"] // iterations,
                "sent_bytes": total["sent_bytes"] / iterations,
                "planned_bytes": float(planned[kind][device]),
                "seconds": total["seconds"] / iterations,
            }
            for kind, total in kinds.items()
        }
        for kinds, device in zip(exchanges, outcome.rank_devices, strict=True)
    ]


def _peaks(file: PlanFile, outcome: Outcome) -> list[str]:
    """Of each rank, measured beside predicted."""
    predicted = evaluate(file.problem, file.plan).peak_memory_bytes
    devices = outcome.rank_devices or file.plan.devices_used()
    return [
        f"{text.nbytes(peak)} (predicted {text.nbytes(predicted[device])})"
        for peak, device in zip(outcome.peak_bytes, devices, strict=False)
    ]


def agreement_words(agreement: Agreement) -> str:
    """How far a run is from the model in a plain loop: the largest relative differences, and the worst tensor."""
    differences = [
        f"{what} {'identical' if value == 0 else f'{value:.1e}'}"
        for what, value in (
            ("losses", agreement.loss),
            ("gradients", agreement.gradient),
            ("parameters", agreement.parameter),
        )
    ]
    worst = f" (worst: {text.short(agreement.worst, 60)})" if agreement.gradient and agreement.worst else ""
    verdict = "agrees with" if agreement.holds else "DIFFERS from"
    sentence = f"{verdict} {agreement.true_model} in {agreement.dtype}, relative: {', '.join(differences)}{worst}"
    return sentence + agreement.undefined_words


def environment_lines(environment: Environment) -> list[str]:
    """Which hardware and software: each kind of device once, with how many ranks had it."""
    kinds = text.counted(environment.devices, "x") or "unknown"
    hosts = sorted(set(environment.hosts))
    where = f" on {text.listing(hosts, 4)}" if hosts else ""
    threads = f"{text.plural(environment.threads, 'thread')} a rank" + (", pinned" if environment.pinned else "")
    return [
        f"hardware   {kinds}{where}; {threads}",
        f"software   torch {environment.torch} ({environment.backend}), Python {environment.python}",
    ]


def compared(file: PlanFile, outcome: Outcome) -> Comparison | str:
    """Measured beside predicted; or, in a line, why they cannot be compared."""
    from explorer.measured import compare_run

    if not outcome.iterations_s:
        return "nothing was measured"
    try:
        return compare_run(file.problem, file.plan, outcome)
    except PlacementError as error:
        return f"measured and predicted cannot be compared: {error}"


def print_comparison(file: PlanFile, comparison: Comparison, same_hardware: bool = True) -> None:
    """The three errors, then the actions and operators that are furthest off; of other hardware than planned for, only
    what does not depend on costs."""
    from explorer.measured import rows
    from explorer.words.actions import KIND_WORDS

    print()
    print_table([["what", "time", "of measured"], *rows(comparison, same_hardware)], right=frozenset({1}))
    for note in comparison.notes:
        print(f"note  {note}")
    if not same_hardware:
        return
    actions = sorted(
        (error for error in comparison.segments if error.predicted_s is not None),
        key=lambda error: -abs(error.measured_s - (error.predicted_s or 0.0)),
    )[:WORST]
    if actions:
        print()
        table = [["furthest off: segment", "action", "devices", "predicted", "measured", "ratio"]]
        for error in actions:
            kind = KIND_WORDS.get(error.kind, "all-reduce")
            devices = ", ".join(map(str, error.devices))
            table.append(
                [str(error.segment), kind, devices, *_beside(error.predicted_s, error.measured_s, error.ratio)]
            )
        print_table(table, right=frozenset({3, 4, 5}))
    operators = sorted(
        # the others have their segment's ratio, which is shown above
        ((position, error) for position, error in enumerate(comparison.operators) if error and error.profiled),
        key=lambda item: -abs(item[1].measured_s - item[1].predicted_s) * item[1].runs,
    )[:WORST]
    if operators:
        print()
        table = [["furthest off: operator", "runs", "predicted", "measured", "ratio"]]
        for position, one in operators:
            name = text.short(file.problem.graph.operators[position].name, 60)
            table.append([name, text.count(one.runs), *_beside(one.predicted_s, one.measured_s, one.ratio)])
        print_table(table, right=frozenset({1, 2, 3, 4}))


def _beside(predicted: float | None, measured: float, ratio: float | None) -> list[str]:
    return [
        text.seconds(predicted),
        text.seconds(measured),
        text.NOTHING if ratio is None else f"{text.digits(ratio)}×",
    ]
