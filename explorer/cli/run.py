"""``run``: a plan, for real, on a target; and what came of it beside what was predicted."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.check import refuse_invalid, violations
from explorer.cli.launching import ENDED, FAILED, add_hardware, add_target_flags, run_plan, saved, usual_request
from explorer.cli.terminal.command import Commands, add_command, add_json, add_output, print_json
from explorer.runner.bundles.words import one_line
from explorer.runner.scripts.executable import OPTIMIZERS
from solvers.errors import InvalidPlan, InvalidProblem

if TYPE_CHECKING:
    from explorer.runner.bundles.request import RunRequest
    from explorer.runner.targets.registry import Targets
    from solvers.formats.plan_json import PlanFile


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "run",
        run,
        "run a plan for real and lay the measurement over the prediction",
        "placement-explorer run plan.json --steps 10 --verify",
    )
    parser.description = f"{parser.description}" + (
        " Exit status: 0 done; 2 bad input, or the plan cannot be launched; 5 the run failed, its result could not"
        " be saved, or --verify found it wrong; 6 it was cancelled"
        " (Ctrl-C) or reached its time limit."
    )
    parser.add_argument("plan", metavar="PLAN", help="a plan.json, as `placement-explorer plan ... -o` writes it")
    where = parser.add_argument_group("where")
    add_target_flags(where)
    where.add_argument("--bundle", metavar="DIR", help="a new folder for all that the run needs and leaves")
    what = parser.add_argument_group("what")
    what.add_argument("--steps", type=int, default=5, metavar="N", help="iterations that are measured (5)")
    what.add_argument("--warmup", type=int, default=2, metavar="N", help="iterations before them that are not (2)")
    what.add_argument("--optimizer", choices=OPTIMIZERS, help="of training (the plan's)")
    what.add_argument("--learning-rate", type=float, default=1e-3, metavar="R", help="its step size (0.001)")
    what.add_argument("--seed", type=int, default=0, metavar="N", help="of parameters and samples (0)")
    what.add_argument("--float64", action="store_true", help="compute in float64, whatever was planned")
    what.add_argument(
        "--verify", action="store_true", help="compare losses, gradients and parameters with the model in a plain loop"
    )
    what.add_argument(
        "--verify-by",
        choices=("whole", "stages"),
        help="--verify with the model in one piece on rank 0, or stage after stage, each on its own rank (in one piece"
        " where there is room for it)",
    )
    what.add_argument(
        "--dump",
        action="store_true",
        help="afterwards write gradients and parameters of one iteration to the bundle's tensors-<rank>.npz, for a"
        " check with a loop of your own (docs/running.md)",
    )
    what.add_argument("--operators", action="store_true", help="afterwards time every operator in place, one by one")
    what.add_argument(
        "--replan",
        nargs="?",
        const="",
        metavar="PROFILE",
        help="measure operators and links on the target (or take them from PROFILE, as `calibrate` wrote it), plan"
        " again with these costs, and run both plans; -o is then the new plan.json",
    )
    what.add_argument(
        "--allow-model",
        action="store_true",
        help="the plan is of package.module:callable, path/file.py:callable or a library's model and may run that code:"
        " only for code that you trust",
    )
    _add_traces(
        parser.add_argument_group("from traces", "In place of a run: what torch.profiler saw of one elsewhere.")
    )
    add_output(parser, "-o", "--output", what="where to write result.json, too")
    add_json(parser)


def _add_traces(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--from-trace",
        metavar="FOLDER",
        help="a folder or .zip with a trace of every rank as prof.export_chrome_trace writes it (.json, .json.gz),"
        " recorded with record_shapes=True, and its memory as prof.export_memory_timeline does; nothing is run",
    )
    add_hardware(group)


def run(args: argparse.Namespace) -> int:
    from explorer.cli.reports.run_report import print_run, run_object
    from explorer.runner.bundles.bundle import finish_bundle, new_folder, predicted_s, write_bundle
    from explorer.runner.bundles.outcome import RunStatus
    from explorer.runner.bundles.result_json import write_outcome
    from explorer.runner.targets.registry import load_targets

    if args.from_trace is not None:
        return _lay_over(args)
    if args.hardware is not None or args.torch is not None:
        raise InvalidProblem("--hardware and --torch say what traces do not (--from-trace); of a run they are seen")
    text, file = _read(args.plan)
    targets = load_targets(args.targets)
    request = _request(args, targets)
    warnings = _checked(args, file, targets)
    target = targets.get(args.target)
    if args.replan is not None:
        from explorer.cli.replan import run_both

        return run_both(args, file, targets, request, warnings)
    folder = Path(args.bundle) if args.bundle else new_folder(file.reference)
    bundle = write_bundle(folder, text, request, target.name, predicted_s=predicted_s(file))
    for warning in warnings:
        print(f"placement-explorer: warning: {warning}", file=sys.stderr)
    outcome = run_plan(target, text, file, request, bundle)
    bundle_saved = saved(lambda: finish_bundle(bundle, outcome))
    written = False
    try:
        if args.json:
            print_json(run_object(file, bundle, target.name, request, outcome))
        else:
            print_run(file, bundle, target.name, targets.setup(args.target).place, request, outcome)
        sys.stdout.flush()
    finally:  # a reader that left early (| head) must not cost the file
        if args.output:
            written = saved(lambda: write_outcome(Path(args.output), outcome))
    if written and not args.json:
        print(f"written    {args.output}")
    if not (bundle_saved and (written or not args.output)):
        return FAILED
    if outcome.status is RunStatus.DONE:
        return 0 if outcome.agreement is None or outcome.agreement.holds else FAILED
    return FAILED if outcome.status is RunStatus.FAILED else ENDED


def _lay_over(args: argparse.Namespace) -> int:
    """What traces of a run elsewhere say, beside what was predicted. Raises InvalidProblem."""
    from explorer.cli.reports.run_report import print_traced, traced_object
    from explorer.measured.traces import traced_outcome
    from explorer.runner.bundles.result_json import write_outcome

    if args.replan is not None or args.verify or args.verify_by or args.dump or args.bundle:
        raise InvalidProblem(
            "--from-trace runs nothing: leave out --replan, --verify, --verify-by, --dump and --bundle"
        )
    _, file = _read(args.plan)
    outcome = traced_outcome(file.problem, file.plan, args.from_trace, hardware=args.hardware, torch=args.torch)
    if args.json:
        print_json(traced_object(file, outcome))
    else:
        print_traced(file, args.from_trace, outcome)
    sys.stdout.flush()
    if args.output and not saved(lambda: write_outcome(Path(args.output), outcome)):
        return FAILED
    if args.output and not args.json:
        print(f"written    {args.output}")
    return 0


def _read(path: str) -> tuple[str, PlanFile]:
    """The plan's text and parts. Raises InvalidProblem, with a hint where it is a model, or InvalidPlan."""
    from demo_models import MODELS
    from explorer.question.loading import read_file
    from solvers.formats import plan_json
    from solvers.formats.json_text import parse_json

    if not os.path.isfile(path) and (path in MODELS or ":" in path):
        raise _is_model(path)
    data = read_file(path)
    if data[:2] == b"PK":
        raise _is_model(path)
    value = parse_json(data, path)
    if isinstance(value, dict) and value.get("format") != plan_json.FORMAT and ("nodes" in value or "graph" in value):
        raise _is_model(path)
    file = plan_json.read_plan(value, path)
    refuse_invalid(path, violations(file))
    return data.decode("utf-8-sig"), file


def _is_model(path: str) -> InvalidProblem:
    return InvalidProblem(
        f"{path}: this is a model, not a plan; plan it first: `placement-explorer plan {path} --devices 2 -o"
        " plan.json`, then `placement-explorer run plan.json`"
    )


def _request(args: argparse.Namespace, targets: Targets) -> RunRequest:
    """What the flags ask. Raises InvalidProblem."""
    from explorer.runner.bundles.outcome import Way

    return replace(
        usual_request(args, targets),
        steps=args.steps,
        warmup=args.warmup,
        optimizer=args.optimizer,
        learning_rate=args.learning_rate,
        seed=args.seed,
        dtype="float64" if args.float64 else None,
        verify=args.verify or args.verify_by is not None,
        verify_by=None if args.verify_by is None else Way(args.verify_by),
        operators=args.operators,
        dump=args.dump,
        allow_model=args.allow_model,
    )


def _checked(args: argparse.Namespace, file: PlanFile, targets: Targets) -> list[str]:
    """What to know before the launch. Raises InvalidPlan or InvalidProblem for what stands against it."""
    from explorer.runner.model.permission import why_not
    from explorer.runner.scripts.checks import Level, check

    if args.dump and targets.setup(args.target).kind != "local":
        raise InvalidProblem(f"--dump: files of ranks of {args.target} would stay there; run it here")
    if refusal := why_not(file.reference, allow_model=args.allow_model):
        hint = "" if why_not(file.reference, allow_model=True) else " (--allow-model)"
        raise InvalidProblem(f"{args.plan}: {one_line(refusal)}{hint}")
    if args.operators and file.problem.graph.tensor_parallel > 1:
        raise InvalidProblem("--operators: operators of a plan whose tensors are divided are not measured one by one")
    findings = check(file.problem, file.plan, targets.setup(args.target).max_ranks, optimizer=args.optimizer)
    errors = [finding.message for finding in findings if finding.level is Level.ERROR]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidPlan(f"{args.plan}: cannot be launched: {errors[0]}{more}")
    return [finding.message for finding in findings]
