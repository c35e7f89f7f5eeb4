"""``decode``: throughput of a decoder's inference against its time per token, and the plan of a chosen point."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.cli.flags import add_model, add_setting, settings_of
from explorer.cli.launching import INFEASIBLE
from explorer.cli.terminal.command import Commands, add_command, add_json, add_output, print_json
from explorer.files import write_file
from explorer.question.settings import ClusterSettings, MemorySettings, TracingSettings, TrainingSettings, declared
from explorer.question.written.kinds import argument
from explorer.question.written.quantities import parse_seconds
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import write_plan

if TYPE_CHECKING:
    from explorer.sweeps.inference.decoder import Decoder
    from explorer.sweeps.inference.points import Point
    from explorer.sweeps.inference.search import Served

PROMPT = 1024
"""Tokens, where nobody says how many; and as many are made."""
LEFT_OUT = ("profile", "cpus", "transfers", "memory_model")
"""Settings that a search over replicas has no use for."""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "decode",
        run,
        "split a decoder's inference into replicas, stages and groups: tokens per second against time per token",
        "placement-explorer decode llama --dtype bf16 --devices 8 --device-kind H100-80GB --prompt 2048 --context 8192"
        " --time-per-token 20ms -o plan.json",
    )
    add_model(parser)
    lengths = parser.add_argument_group("lengths", "Of every sequence alike; its KV cache has room for the context.")
    lengths.add_argument("--prompt", type=int, default=PROMPT, metavar="N", help=f"tokens of a prompt ({PROMPT})")
    lengths.add_argument(
        "--context", type=int, metavar="N", help="most tokens of a sequence, where decode is timed (twice the prompt)"
    )
    lengths.add_argument(
        "--latent",
        metavar="RANK+ROTARY",
        help="elements that latent attention keeps of a token in place of keys and values (512+64 in DeepSeek-V3)",
    )
    lengths.add_argument(
        "--causal", action="store_true", help="masks that the model makes itself are causal (a graph has no values)"
    )
    parser.add_argument(
        "--time-per-token",
        type=argument(parse_seconds),
        metavar="TIME",
        help="the most that a token of a sequence may take, 50ms: the answer has the largest throughput within it"
        " (the largest of all)",
    )
    for title, group in (("cluster", ClusterSettings), ("memory", MemorySettings)):
        section = parser.add_argument_group(title)
        for one in declared(group):
            if one.name not in LEFT_OUT:
                add_setting(section, one)
    for one in declared(TracingSettings, TrainingSettings):
        if one.name in ("dtype", "stack"):
            add_setting(parser, one)
    add_output(parser, "-o", "--output", what="where to write the answer's decode phase, one replica, as plan.json")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from explorer.cli.reports.decode_report import print_served, served_object
    from explorer.sweeps.inference.decoder import Decoder
    from explorer.sweeps.inference.kv_cache import Latent

    settings = settings_of(args)
    decoder = Decoder(
        args.model,
        args.prompt,
        2 * args.prompt if args.context is None else args.context,
        dtype=settings.dtype,
        latent=None if args.latent is None else Latent.parse(args.latent),
        causal=args.causal,
    )
    if args.time_per_token == 0:
        raise InvalidProblem("--time-per-token must be more than 0")
    served = _searched(decoder, args)
    best = served.best(args.time_per_token)
    try:
        if args.json:
            print_json(served_object(decoder, served, best, args.time_per_token))
        else:
            print_served(decoder, served, best, args.time_per_token)
        sys.stdout.flush()
    finally:
        if args.output and best is not None:
            write_file(args.output, plan_text(decoder, best), "saving the plan")
    if args.output and best is not None and not args.json:
        print(f"written    {args.output}: one replica of {best.replicas}")
    return 0 if best is not None else INFEASIBLE


def plan_text(decoder: Decoder, point: Point) -> str:
    """A plan.json of the decode phase of one replica."""
    return write_plan(point.result.problem, point.plan, point.result, decoder.name)


def _searched(decoder: Decoder, args: argparse.Namespace) -> Served:
    """Ctrl-C ends the search with what was found."""
    from explorer.cli.terminal.progress import Line, report_compiling, stop_on_interrupt
    from explorer.sweeps.inference.search import serve

    line = Line(sys.stderr)
    doing = f"tracing {decoder.model}"

    def begin(what: str) -> None:
        nonlocal doing
        doing = what
        if line.due(changed=True):
            line.draw(f"{what} ...")

    decoder.on_call = lambda count: line.draw(f"{doing}: {count:,} calls") if line.due() else None
    with report_compiling(), stop_on_interrupt() as stop:
        try:
            begin(doing)
            return serve(decoder, replace(settings_of(args), training=False), should_stop=stop.is_set, begin=begin)
        finally:
            line.clear()
