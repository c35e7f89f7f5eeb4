"""``targets`` and ``runs``: where plans can be run, and what came of those that were."""

from __future__ import annotations

import argparse

from explorer.cli.launching import add_targets
from explorer.cli.terminal.command import Column, Commands, add_command, add_json, print_listing

FILE_HELP = (
    ' A file of targets has a TOML table for each: [cluster] kind = "ray", address = "https://head:8265", token_env ='
    ' "RAY_AUTH_TOKEN" (or token_file), and if need be ca_file, verify_tls, allow_plain_http, hosts, installed, python,'
    ' wait; [local], or any with kind = "local", is this machine; both know threads, pin, backend, timeout and'
    " max_ranks. Secrets are never in the file."
)
SHOWN = 20
"""Runs listed unless more are asked for."""


def add_target_list(commands: Commands) -> None:
    parser = add_command(
        commands, "targets", targets, "list where plans can be run", "placement-explorer targets --targets targets.toml"
    )
    parser.description = f"{parser.description}{FILE_HELP}"
    add_targets(parser)
    add_json(parser)


def add_runs(commands: Commands) -> None:
    parser = add_command(commands, "runs", runs, "list the runs so far, the newest first", "placement-explorer runs")
    parser.add_argument("--limit", type=_count, default=SHOWN, metavar="N", help=f"most that are listed ({SHOWN})")
    add_json(parser)


ADD = (add_target_list, add_runs)


def targets(args: argparse.Namespace) -> int:
    from explorer.runner.targets.registry import load_targets
    from explorer.runner.targets.target_file import default_file

    declared = load_targets(args.targets)
    rows = [
        {
            "name": name,
            "kind": setup.kind,
            "place": setup.place,
            "backend": setup.backend.value,
            "threads": setup.threads,
            "time_limit_s": setup.timeout_s,
            "max_ranks": setup.max_ranks,
        }
        for name, setup in declared.setups.items()
    ]
    columns = [Column(name, name) for name in ("name", "kind", "place", "backend", "threads")]
    columns.append(Column("time limit", "time_limit_s", lambda limit_s: f"{limit_s:g} s"))
    print_listing(rows, columns, as_json=args.json)
    if args.json:
        return 0
    if declared.where:
        print(f"\ndeclared in {declared.where}")
    else:
        print(f"\nothers can be declared in {default_file(declared.environ)}")
    return 0


def runs(args: argparse.Namespace) -> int:
    from explorer.runner.bundles.bundle import runs_folder
    from explorer.runner.bundles.history import past_runs
    from explorer.words import text

    past = past_runs(limit=args.limit)
    if not past and not args.json:
        print(f"no runs in {runs_folder()}")
        return 0
    names = ("id", "model", "created", "target", "ranks", "status", "reason", "iteration_s", "predicted_s")
    rows = [{name: getattr(run, name) for name in names} | {"bundle": str(run.folder)} for run in past]
    columns = (
        Column("run", "id"),
        Column("model", "model", lambda model: text.short(model, 40)),
        Column("target", "target"),
        Column("ranks", "ranks", str, True),
        Column("status", "status"),
        Column("iteration", "iteration_s", text.seconds, True),
        Column("predicted", "predicted_s", text.seconds, True),
    )
    print_listing(rows, columns, as_json=args.json)
    if not args.json:
        print(f"\nin {runs_folder()}")
    return 0


def _count(value: str) -> int:
    if not value.isdigit() or not 1 <= int(value) <= 10_000:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 10,000, found {value!r}")
    return int(value)
