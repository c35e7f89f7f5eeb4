"""``calibrate``: a model's operators and the links of a target, measured."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.flags import add_phase
from explorer.cli.launching import ENDED, FAILED, add_hardware, add_target_flags, measured, usual_request
from explorer.cli.terminal.command import Commands, add_command, add_json, add_output, print_json
from explorer.cli.terminal.keeping import traced
from explorer.files import write_file
from solvers.errors import InvalidProblem, RunError

if TYPE_CHECKING:
    from explorer.costs.profile import Profile
    from explorer.costs.times.library import Library
    from explorer.runner.bundles.request import RunRequest
    from explorer.runner.targets.registry import Targets

DEVICES = 2


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "calibrate",
        run,
        "measure a model's operators and the links between devices, for `plan --profile`",
        "placement-explorer calibrate gpt-small --devices 2 -o profile.json",
    )
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="a demo name or package.module:callable, whose code is run"
    )
    parser.add_argument(
        "--devices", type=int, default=DEVICES, metavar="N", help=f"processes that measure at the same time ({DEVICES})"
    )
    parser.add_argument(
        "--samples", type=_counts, default=(), metavar="N,N,...", help="at which numbers of samples (1,2,4,8,16)"
    )
    parser.add_argument(
        "--blocks",
        type=int,
        metavar="N",
        help="measure the model in about N blocks, one after another, each with its own parameters alone (as many as"
        " memory asks for)",
    )
    parser.add_argument("--budget", type=float, metavar="S", help="seconds of measuring, about (15)")
    _add_trace(parser.add_argument_group("from a trace", "In place of MODEL: what torch.profiler saw elsewhere."))
    add_target_flags(parser.add_argument_group("where"))
    add_phase(parser)
    add_output(parser, "-o", "--output", what="where to write profile.json")
    add_output(
        parser, "--write-cluster", what="where to write the devices and links measured, for --cluster with any model"
    )
    add_output(
        parser,
        "--write-times",
        what="where to write what operators took, for --times with any model; a file of the same hardware that is there"
        " is added to",
    )
    parser.add_argument(
        "--save",
        metavar="NAME",
        help="keep both by name for --profile NAME and --times NAME (`placement-explorer profiles` lists them); a"
        " profile of that name is replaced, operator times are added to",
    )
    add_json(parser)


def _add_trace(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--from-trace",
        metavar="PATH",
        help="a trace as prof.export_chrome_trace writes it (.json, .json.gz), recorded with record_shapes=True, or a"
        " folder or .zip with those of several ranks; their operators go to --write-times",
    )
    add_hardware(group)


def run(args: argparse.Namespace) -> int:
    if args.from_trace is not None:
        return _import_trace(args)
    if args.model is None:
        raise InvalidProblem("what should be measured? Give a MODEL, or --from-trace FILE")
    if args.hardware is not None or args.torch is not None:
        raise InvalidProblem(
            "--hardware and --torch say what a trace does not (--from-trace); of a MODEL they are seen"
        )
    from explorer.costs.measured import as_catalogued, measured_cluster
    from explorer.costs.profile_json import profile_object, write_profile
    from explorer.costs.times.from_profile import library_of
    from explorer.costs.times.keeping import earlier_times, save_times
    from explorer.runner.measuring.calibration import Ended
    from explorer.runner.targets.registry import load_targets
    from solvers.formats.cluster_json import cluster_json
    from solvers.formats.json_text import dump_json

    _check_model(args.model)
    before = earlier_times(args.write_times)
    _check_name(args.save)
    targets = load_targets(args.targets)
    request = _request(args, targets)
    targets.get(args.target)  # before the model: a typo should not cost a trace
    workload = traced(args, args.model, keeping=False)
    try:
        profile = measured(workload.graph, workload.reference, targets, args.target, args.devices, request)
    except RunError as error:
        print(f"placement-explorer: error: {error}", file=sys.stderr)
        return ENDED if isinstance(error, Ended) else FAILED
    try:
        if args.json:
            print_json(profile_object(profile))
        else:
            from explorer.cli.reports.calibration_report import print_profile

            print_profile(workload.graph, profile)
        sys.stdout.flush()
    finally:  # a reader that left early (| head) must not cost the file
        if args.output:
            write_file(args.output, write_profile(profile), "saving the profile")
        if args.write_cluster:
            cluster = dump_json(cluster_json(as_catalogued(measured_cluster(profile), profile)), indent=2)
            write_file(args.write_cluster, cluster, "saving the cluster")
        if args.write_times:
            save_times(args.write_times, library_of(workload.graph, profile), before)
        if args.save:
            _save(args, profile, library_of(workload.graph, profile))
    if args.output and not args.json:
        print(f"written    {args.output}")
    if args.write_cluster and not args.json:
        print(f"written    {args.write_cluster}")
    if args.write_times and not args.json:
        print(f"written    {args.write_times}")
    return 0


def _import_trace(args: argparse.Namespace) -> int:
    """What a trace says of operators, into a file of operator times."""
    from explorer.cli.reports.calibration_report import print_imported
    from explorer.costs.times.from_trace import imported
    from explorer.costs.times.keeping import earlier_times, save_times
    from explorer.costs.times.library_json import library_object
    from explorer.measured.traces.files import traces

    if args.model is not None:
        raise InvalidProblem(f"--from-trace takes the place of a model to measure; leave out {args.model[:80]}")
    if args.output or args.write_cluster:
        raise InvalidProblem("a trace has operators only; write them with --write-times")
    if not args.write_times and not args.save:
        raise InvalidProblem("say where the operator times of the trace should go (--write-times FILE, --save NAME)")
    before = earlier_times(args.write_times)
    _check_name(args.save)
    name = os.path.basename(os.path.normpath(args.from_trace))
    trace = imported(traces(args.from_trace), name, hardware=args.hardware, threads=args.threads or 1, torch=args.torch)
    if args.write_times:
        save_times(args.write_times, trace.library, before)
    if args.json:
        print_json(library_object(trace.library))
    else:
        print_imported(name, trace)
    if args.write_times and not args.json:
        print(f"written    {args.write_times}")
    if args.save:
        _save(args, None, trace.library)
    return 0


def _check_name(name: str | None) -> None:
    """Before anything is measured: raises InvalidProblem for what cannot be saved under."""
    from explorer.costs.times.keeping import earlier_times
    from explorer.costs.times.store import TIMES, place_of

    if name is not None:
        earlier_times(str(place_of(name, TIMES)))


def _save(args: argparse.Namespace, profile: Profile | None, library: Library) -> None:
    from explorer.costs.times.store import save

    places = save(args.save, profile, library)
    if not args.json:
        what = "profile and operator times" if profile is not None else "operator times"
        print(f"saved      {args.save}: {what}, in {places[0].parent}")


def _check_model(model: str) -> None:
    """Raises InvalidProblem for what holds no code that could be run."""
    from explorer.question.loading import check_name

    check_name(model)
    if os.path.isfile(model) or Path(model).suffix in (".pt2", ".json", ".txt"):
        raise InvalidProblem(
            f"{model}: a file holds the graph alone, and only code can be measured; give a demo model or"
            " package.module:callable"
        )


def _request(args: argparse.Namespace, targets: Targets) -> RunRequest:
    usual = usual_request(args, targets)
    return replace(
        usual,
        allow_model=True,  # whoever names the code here wants it run
        samples=args.samples,
        budget_s=usual.budget_s if args.budget is None else args.budget,
        blocks=args.blocks,
    )


def _counts(text: str) -> tuple[int, ...]:
    """ "1,2,8" -> (1, 2, 8)."""
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() and len(part) < 8 for part in parts):
        raise argparse.ArgumentTypeError(f"expected whole numbers such as 1,2,4,8, found {text[:80]!r}")
    counts = tuple(sorted({int(part) for part in parts}))
    if len(counts) < 2 or counts[0] < 1:
        raise argparse.ArgumentTypeError(f"expected at least two different numbers from 1 up, found {text[:80]!r}")
    return counts
