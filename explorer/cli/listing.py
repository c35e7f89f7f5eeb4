"""``models``, ``planners`` and ``devices``: what there is to choose from."""

from __future__ import annotations

import argparse

from explorer.cli.terminal.command import Commands, add_command, add_json, print_json, print_table


def add_models(commands: Commands) -> None:
    add_json(add_command(commands, "models", models, "list the demo models", "placement-explorer models"))


def add_planners(commands: Commands) -> None:
    add_json(
        add_command(
            commands, "planners", planners, "list the planners and their options", "placement-explorer planners"
        )
    )


def add_devices(commands: Commands) -> None:
    add_json(add_command(commands, "devices", devices, "list the device kinds", "placement-explorer devices --json"))


ADD = (add_models, add_planners, add_devices)


def models(args: argparse.Namespace) -> int:
    from demo_models import MODELS

    if args.json:
        print_json(
            [
                {"name": m.name, "title": m.title, "description": m.description, "parameters": m.parameters}
                for m in MODELS.values()
            ]
        )
    else:
        print_table([["name", "parameters", "what"]] + [[m.name, m.parameters, m.description] for m in MODELS.values()])
    return 0


def planners(args: argparse.Namespace) -> int:
    from explorer.question.planner_choice import options_of
    from solvers.formats.result_json import options_json
    from solvers.planners.registry import PLANNERS

    options = {name: {key: default for key, (_, default) in options_of(p).items()} for name, p in PLANNERS.items()}
    if args.json:
        print_json(
            [
                {"name": name, "guarantee": p.guarantee, "source": p.source, "options": options_json(options[name])}
                for name, p in PLANNERS.items()
            ]
        )
        return 0
    rows = [["name", "guarantee", "source", "options"]]
    for name, planner in PLANNERS.items():
        shown = " ".join(f"{key}={value}" for key, value in options[name].items())
        rows.append([name, planner.guarantee, planner.source, shown])
    print_table(rows)
    return 0


def devices(args: argparse.Namespace) -> int:
    from explorer.costs.devices import DEVICES
    from explorer.words import text

    if args.json:
        print_json(
            [
                {
                    "name": kind.name,
                    "memory_bytes": kind.memory_bytes,
                    "memory_bytes_per_s": kind.memory_bytes_per_s,
                    "peak_flops_per_s": dict(kind.peak_flops_per_s),
                }
                for kind in DEVICES.values()
            ]
        )
        return 0
    rows = [["kind", "memory", "bandwidth", "bf16", "fp32"]]
    for kind in DEVICES.values():
        peaks = [f"{text.large(kind.peak_flops_per_s[d])}FLOP/s" for d in ("bf16", "fp32")]
        rows.append([kind.name, text.nbytes(kind.memory_bytes), f"{text.nbytes(kind.memory_bytes_per_s)}/s", *peaks])
    print_table(rows, right=frozenset({1, 2, 3, 4}))
    return 0
