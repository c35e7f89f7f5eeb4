"""``models``, ``planners``, ``devices``, ``clusters`` and ``profiles``: what there is to choose from."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from explorer.cli.terminal.command import (
    Column,
    Commands,
    add_command,
    add_json,
    print_json,
    print_listing,
    print_table,
)
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

    rows = [
        {"name": m.name, "title": m.title, "description": m.description, "parameters": m.parameters}
        for m in MODELS.values()
    ]
    columns = Column("name", "name"), Column("parameters", "parameters"), Column("what", "description")
    print_listing(rows, columns, as_json=args.json)
    return 0


def planners(args: argparse.Namespace) -> int:
    from explorer.question.planner_choice import options_of
    from solvers.formats.result_json import options_json
    from solvers.planners.registry import PLANNERS

    rows = [
        {"name": name, "guarantee": p.guarantee, "source": p.source,
         "options": options_json({key: default for key, (_, default) in options_of(p).items()})}
        for name, p in PLANNERS.items()
    ]  # fmt: skip
    columns = (
        Column("name", "name"),
        Column("guarantee", "guarantee"),
        Column("source", "source"),
        Column("options", "options", lambda options: " ".join(f"{key}={value}" for key, value in options.items())),
    )
    print_listing(rows, columns, as_json=args.json)
    return 0


def devices(args: argparse.Namespace) -> int:
    from explorer.costs.devices import DEVICES
    from explorer.costs.efficiency import WorkClass
    from explorer.words import text

    rows = [
        {
            "name": kind.name,
            "memory_bytes": kind.memory_bytes,
            "memory_bytes_per_s": kind.memory_bytes_per_s,
            "peak_flops_per_s": dict(kind.peak_flops_per_s),
            "efficiency": {work.value: _efficiency(work, kind.name) for work in WorkClass},
            "links": _links(kind.name),
        }
        for kind in DEVICES.values()
    ]
    columns = (
        Column("kind", "name"),
        Column("memory", "memory_bytes", text.nbytes, True),
        Column("bandwidth", "memory_bytes_per_s", lambda rate: f"{text.nbytes(rate)}/s", True),
        Column("bf16", "peak_flops_per_s", lambda peaks: f"{text.large(peaks['bf16'])}FLOP/s", True),
        Column("fp32", "peak_flops_per_s", lambda peaks: f"{text.large(peaks['fp32'])}FLOP/s", True),
    )
    print_listing(rows, columns, as_json=args.json)
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


def _links(kind: str) -> list[dict[str, object]]:
    """What messages and collectives between such devices were measured to take, for --latency and --bandwidth."""
    from explorer.costs.curves import curves

    return [
        {
            "operation": link.operation,
            "devices": link.devices,
            "latency_s": link.latency_s,
            "bandwidth_bytes_per_s": link.bandwidth_bytes_per_s,
            "sizes": link.rows,
            "held_out": link.held_out.rows,
            "estimated_over_measured": {
                "low": link.held_out.low,
                "median": link.held_out.median,
                "high": link.held_out.high,
            },
        }
        for link in curves().links
        if link.device == kind
    ]


def clusters(args: argparse.Namespace) -> int:
    from explorer.question.nodes.presets import OFFERED, PRESETS, find_preset, preset_title, suggestion

    if args.name is None:
        if args.json:
            print_json([{"name": p.name, "title": p.title, "source": p.source} for p in PRESETS.values()])
        else:
            print_table([["name", "what"]] + [[name, preset_title(name)] for name in OFFERED])
            print("\n2xNAME is two nodes of it, with its network. `placement-explorer clusters NAME` prints its file.")
        return 0
    preset = find_preset(args.name)
    if preset is None:
        raise InvalidProblem(f"there is no cluster {args.name[:80]!r}{suggestion(args.name)}")
    description = preset[0].description(preset[1])
    if args.json:
        print_json(description)
        return 0
    print(f"# {preset_title(args.name)}\n# {preset[0].source}")
    for key, value in description.items():
        nodes = value if isinstance(value, list) else []
        print(f"nodes:\n  - {_flow(nodes[0])}" if nodes else f"{key}: {_flow(value)}")
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

    rows = [asdict(one) | {"path": str(one.path)} for one in listed()]
    if not rows and not args.json:
        print(f"nothing is saved in {store_folder()}; `placement-explorer calibrate MODEL --save NAME` does")
        return 0
    shown = rows if args.json else [row | _profile_words(row) for row in rows]
    columns = (
        Column("name", "name"),
        Column("what", "kind"),
        Column("of", "of"),
        Column("dtype", "dtypes"),
        Column("hardware", "hardware"),
        Column("torch", "torch"),
        Column("date", "date"),
        Column("spread", "spread"),
    )
    print_listing(shown, columns, as_json=args.json)
    if not args.json:
        print(f"\nin {store_folder()}")
    return 0


def _profile_words(row: Mapping[str, Any]) -> dict[str, str]:
    """What the table says of a profile, or of one that cannot be read."""
    from explorer.words import text

    if row["trouble"]:
        gone = dict.fromkeys(("dtypes", "hardware", "torch", "date", "spread"), "")
        return {"of": f"cannot be read: {text.short(row['trouble'], 80)}", **gone}
    more = len(row["of"]) - 3
    return {
        "of": ", ".join(row["of"][:3]) + (f" and {more} more" if more > 0 else ""),
        "dtypes": ", ".join(row["dtypes"]),
        "hardware": f"{row['processes']} x {text.short(row['hardware'], 40)}",
        "date": row["date"][:10],
        "spread": "" if row["spread"] is None else text.percent(row["spread"]),
    }
