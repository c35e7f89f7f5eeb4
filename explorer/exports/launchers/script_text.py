"""The program that `torch-script` writes; <WORDS> are put in. It is text here: only who runs it needs torch."""

from __future__ import annotations

SCRIPT = '''<HEAD>
"""Trains in a pipeline as planned, with torch 2.13 alone; by itself it trains the whole model on the same samples.

    torchrun --nproc-per-node <RANKS> this_file.py --steps 3
    python this_file.py --steps 3
"""

import argparse
import csv
import operator
import os
import tempfile
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, SplitPoint, pipeline
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.utils.checkpoint import checkpoint

SPLIT_SPEC = <SPLIT_SPEC>
ORDER = <ORDER>
RANK_OF = <RANK_OF>  # of every stage
MICRO_BATCHES, MICRO_BATCH = <MICRO_BATCHES>, <MICRO_BATCH>
RECOMPUTE = <RECOMPUTE>  # stages that keep only what they receive
OPTIMIZER = <OPTIMIZER>


def build():
    """The module and example inputs; the first dimension of each is the batch."""
    <MAKE>


def samples(example, count):
    """So many samples: the example again and again, each time shifted."""
    times = -(-count // len(example[0]))
    return tuple(torch.cat([x.roll(k, -1) for k in range(times)])[:count] for x in example)


class Part(nn.Module):
    """A stage: it takes what the stage before hands on, and the model's inputs by name, and hands on what later
    stages read, be it its own or not."""

    def __init__(self, body, call, takes, gives, recompute):
        super().__init__()
        self.body, self.reads, self.name = body, [str(a) for a in call.args], call.name
        self.takes, self.gives, self.recompute = takes, gives, recompute
        self.picks = {n.name: n.args[1] for n in call.users if n.target is operator.getitem}

    def forward(self, *received, **inputs):
        for x in received:
            if x.requires_grad:
                x.register_hook(torch.Tensor.contiguous)  # a gradient is sent as one piece of memory
        values = inputs | dict(zip(self.takes, received, strict=True))
        given = [values[name] for name in self.reads]
        made = checkpoint(self.body, *given, use_reentrant=False) if self.recompute else self.body(*given)
        values[self.name] = made
        values |= {name: made[index] for name, index in self.picks.items()}
        out = tuple(values[name].contiguous() for name in self.gives)
        return out if len(out) > 1 else out[0]


def parts(pipe):
    """The stages of a model that torch has split, and the names of its inputs."""
    graph = pipe.split_gm.graph
    calls = [node for node in graph.nodes if node.op == "call_module"]
    result = next(node for node in graph.nodes if node.op == "output").all_input_nodes
    stage_of = {node: i for i, node in enumerate(calls)}
    made, read = {}, {}
    for node in graph.nodes:
        source = node.args[0] if node.target is operator.getitem else node
        if source in stage_of and not any(user.target is operator.getitem for user in node.users):
            made[node.name] = stage_of[source]
            read[node.name] = max([stage_of[u] for u in node.users if u in stage_of], default=-1)
    if len(result) != 1:
        raise SystemExit(f"the model gives {len(result)} tensors; this script trains on one")
    alive = [[n for n in made if made[n] <= i < read[n]] for i in range(len(calls) - 1)] + [[result[0].name]]
    found = []
    for i, call in enumerate(calls):
        body = pipe.split_gm.get_submodule(call.target)
        found.append(Part(body, call, alive[i - 1] if i else [], alive[i], i in RECOMPUTE))
    return found, [node.name for node in graph.nodes if node.op == "placeholder"]


def loss_of(output, target=None):
    return output if output.dim() == 0 else output.float().mean()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=3)
    arguments.add_argument("--device", default="cpu", help="cpu (gloo) or cuda (nccl)")
    given = arguments.parse_args()
    alone = int(os.environ.get("WORLD_SIZE", 1)) == 1
    device = torch.device(given.device, int(os.environ.get("LOCAL_RANK", 0)) if given.device == "cuda" else None)
    torch.manual_seed(0)
    model, example = build()
    model.to(device).train()
    batch = [x.to(device) for x in samples(example, MICRO_BATCHES * MICRO_BATCH)]
    if alone and len(ORDER) > 1:
        optimizer = OPTIMIZER(model.parameters(), lr=1e-3)
        for step in range(given.steps):
            optimizer.zero_grad()
            losses = [loss_of(model(*x)) for x in zip(*(x.chunk(MICRO_BATCHES) for x in batch), strict=True)]
            (sum(losses) / MICRO_BATCHES).backward()
            optimizer.step()
            print(f"step {step} loss {sum(x.item() for x in losses) / MICRO_BATCHES:.9f}", flush=True)
        return
    dist.init_process_group("nccl" if given.device == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks != len(ORDER):
        raise SystemExit(f"planned for {len(ORDER)} processes, started with {ranks}")
    spec = {path: SplitPoint[kind] for path, kind in SPLIT_SPEC.items()}
    bodies, names = parts(pipeline(model, tuple(x[:MICRO_BATCH] for x in batch), split_spec=spec))
    mine = [stage for stage, of in enumerate(RANK_OF) if of == rank]
    stages = [PipelineStage(bodies[stage], stage, len(bodies), device) for stage in mine]
    schedule = _PipelineScheduleRuntime(stages, MICRO_BATCHES, loss_fn=loss_of)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "order.csv"), "w", newline="") as file:
            csv.writer(file).writerows(row.split() for row in ORDER)
        schedule._load_csv(file.name)
    optimizer = OPTIMIZER([p for stage in stages for p in stage.submod.parameters()], lr=1e-3)
    for step in range(given.steps):
        optimizer.zero_grad()
        losses = []
        schedule.step(**dict(zip(names, batch)), target=batch[0], losses=losses, return_outputs=False)
        optimizer.step()
        if len(bodies) - 1 in mine:
            print(f"step {step} loss {sum(x.item() for x in losses) / MICRO_BATCHES:.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
'''
