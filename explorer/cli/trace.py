"""``trace``: a model to a graph.json."""

from __future__ import annotations

import argparse
import sys

from explorer.cli.flags import add_model, add_phase
from explorer.cli.terminal.command import Commands, add_command, add_json, add_output, print_json
from explorer.cli.terminal.keeping import traced
from explorer.files import write_file


def add(commands: Commands) -> None:
    parser = add_command(
        commands, "trace", run, "trace a model and write its operator graph", "placement-explorer trace gpt -o gpt.json"
    )
    add_model(parser)
    add_phase(parser)
    add_output(parser, "-o", "--output", what="where to write graph.json")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from explorer.costs.roofline import stated_dtype
    from explorer.words import text
    from solvers.formats.graph_json import write_graph
    from solvers.formats.op_graph_json import graph_hash

    workload = traced(args, args.model, keeping=False)
    if args.output:
        write_file(args.output, write_graph(workload), "saving the graph")
    graph = workload.graph
    dtype = stated_dtype(graph)
    if args.json:
        print_json(
            {
                "model": workload.reference,
                "operators": len(graph),
                "tensors": len(graph.tensors),
                "samples": graph.samples,
                "dtype": dtype,
                "parameters": workload.parameters,
                "training": workload.training,
                "graph_sha256": graph_hash(graph),
                "output": args.output,
                "notes": list(workload.notes),
            }
        )
        return 0
    notes = f", {text.plural(len(workload.notes), 'note')}" if workload.notes else ""
    parameters = "" if workload.parameters is None else f", {text.large(workload.parameters)} parameters"
    print(
        f"{workload.reference}: {text.plural(len(graph), 'operator')}, {text.plural(len(graph.tensors), 'tensor')}"
        f"{parameters}{'' if dtype is None else f', {dtype}'}, traced at {text.plural(graph.samples, 'sample')}"
        f" for {'training' if workload.training else 'inference'}"
        f"{notes}"
    )
    for note in workload.notes:
        print(f"note: {note}")
    if args.output:
        print(f"written to {args.output}", file=sys.stderr)
    return 0
