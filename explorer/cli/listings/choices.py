"""``models``, ``planners``, ``devices``, ``clusters`` and ``profiles``: what there is to choose from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from explorer.cli.terminal.command import Commands, add_command, add_json, print_json, print_table
from solvers.errors import InvalidProblem

if TYPE_CHECKING:
    from explorer.costs.efficiency import WorkClass


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


def add_clusters(commands: Commands) -> None:
    parser = add_command(
        commands,
        "clusters",
        clusters,
        "list the clusters that --cluster knows by name, or print one as a file to start from",
        "placement-explorer clusters 2xdgx-h100 > mine.yaml",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="print this one; 2xNAME is two nodes of it (list all)")
    add_json(parser)


def add_profiles(commands: Commands) -> None:
    add_json(
        add_command(
            commands,
            "profiles",
            profiles,
            "list what `calibrate --save` measured and kept, for --profile and --times",
            "placement-explorer profiles",
        )
    )


ADD = (add_models, add_planners, add_devices, add_clusters, add_profiles)


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
    from explorer.costs.efficiency import WorkClass
    from explorer.words import text

    if args.json:
        print_json(
            [
                {
                    "name": kind.name,
                    "memory_bytes": kind.memory_bytes,
                    "memory_bytes_per_s": kind.memory_bytes_per_s,
                    "peak_flops_per_s": dict(kind.peak_flops_per_s),
                    "efficiency": {work.value: _efficiency(work, kind.name) for work in WorkClass},
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


def _efficiency(work: WorkClass, kind: str) -> dict[str, object]:
    """What the estimate takes of a class in 16 bit: the curve of measured kernels, or else the share, with what was
    published of it."""
    from explorer.costs.devices import DEVICES
    from explorer.costs.efficiency import SHARES, published
    from explorer.costs.roofline import measured_curve

    source, curve = published(work, kind), measured_curve(DEVICES[kind], "fp16", work)
    measured = None
    if curve is not None:
        judged = curve.held_out
        errors = {"low": judged.low, "median": judged.median, "high": judged.high}
        measured = {
            "device": curve.device,
            "kernels": curve.rows,
            "held_out": judged.rows,
            "estimated_over_measured": errors,
        }
    return {
        "share": SHARES[work],
        "published": None if source is None else {"low": source.low, "high": source.high, "source": source.source},
        "measured": measured,
    }


def clusters(args: argparse.Namespace) -> int:
    from explorer.question.nodes.presets import OFFERED, PRESETS, find_preset, preset_title, suggestion

    if args.name is None:
        if args.json:
            print_json([{"name": p.name, "title": p.title, "source": p.source} for p in PRESETS.values()])
        else:
            print_table([["name", "what"]] + [[name, preset_title(name)] for name in OFFERED])
            print("\n2xNAME is two nodes of it, with its network. `placement-explorer clusters NAME` prints its file.")
        return 0
    found = find_preset(args.name)
    if found is None:
        raise InvalidProblem(f"there is no cluster {args.name[:80]!r}{suggestion(args.name)}")
    description = found[0].description(found[1])
    if args.json:
        print_json(description)
        return 0
    print(f"# {preset_title(args.name)}\n# {found[0].source}")
    for key, value in description.items():
        print(f"{key}: {_flow(value)}" if key != "nodes" else f"nodes:\n  - {_flow(value[0])}")
    return 0


def _flow(value: object) -> str:
    """YAML on one line, of what presets hold: objects, numbers, and texts that need no quotes."""
    return (
        f"{{{', '.join(f'{key}: {_flow(item)}' for key, item in value.items())}}}"
        if isinstance(value, dict)
        else str(value)
    )


def profiles(args: argparse.Namespace) -> int:
    from explorer.costs.times.store import listed, store_folder
    from explorer.words import text

    found = listed()
    if args.json:
        print_json(
            [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "of": list(one.of),
                    "hardware": one.hardware,
                    "threads": one.threads,
                    "processes": one.processes,
                    "torch": one.torch,
                    "python": one.python,
                    "dtypes": list(one.dtypes),
                    "date": one.date,
                    "spread": one.spread,
                    "path": str(one.path),
                    "trouble": one.trouble,
                }
                for one in found
            ]
        )
        return 0
    if not found:
        print(f"nothing is saved in {store_folder()}; `placement-explorer calibrate MODEL --save NAME` does")
        return 0
    rows = [["name", "what", "of", "dtype", "hardware", "torch", "date", "spread"]]
    for one in found:
        if one.trouble:
            rows.append([one.name, one.kind, f"cannot be read: {text.short(one.trouble, 80)}", "", "", "", "", ""])
            continue
        models = ", ".join(one.of[:3]) + (f" and {len(one.of) - 3} more" if len(one.of) > 3 else "")
        hardware = f"{one.processes} x {text.short(one.hardware, 40)}"
        spread = "" if one.spread is None else text.percent(one.spread)
        rows.append([one.name, one.kind, models, ", ".join(one.dtypes), hardware, one.torch, one.date[:10], spread])
    print_table(rows)
    print(f"\nin {store_folder()}")
    return 0
