"""What the words of the page mean, each in a sentence or two; settings bring theirs (`explorer.question.settings`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """word: as people look it up. part: the heading it is listed under."""

    word: str
    meaning: str
    part: str


MODEL, CLUSTER, PIPELINE, SEARCH, RESULT = "Model", "Cluster", "Pipeline", "Search", "Plan and schedule"
PARTS = (MODEL, CLUSTER, PIPELINE, SEARCH, RESULT)

_TERMS = {
    "operator": (
        MODEL,
        "Operator",
        "One step of the model's computation, such as a matrix product. Each has a time, parameters and saved "
        "activations, and runs on one device (or on each of a stage's replicas).",
    ),
    "module": (
        MODEL,
        "Module",
        "A named part of the model, such as a layer. Boxes of the graph are modules; a double click opens one.",
    ),
    "boxes": (
        MODEL,
        "Boxes and levels",
        "How many boxes are drawn for all operators of the model. − and + show fewer or more levels of modules.",
    ),
    "costs": (
        MODEL,
        "Costs",
        "The times that plans are made from: estimated from FLOPs and bytes for a kind of GPU, measured on "
        "hardware, or stated by the file.",
    ),
    "mixed-kind": (
        CLUSTER,
        "Second GPU type",
        "A second kind of GPU in the same cluster, and how many there are of it.",
    ),
    "named-cluster": (
        CLUSTER,
        "A cluster by name",
        "A machine as it is sold, or several of them with their network: kinds, memory and links at once, in place of "
        "the settings below. placement-explorer clusters prints them as files to change.",
    ),
    "saved-costs": (
        CLUSTER,
        "Measured costs",
        "What calibrate --save measured and kept: profiles, of one model, or times of operators, for any model on that "
        "hardware. Without one, times are estimates.",
    ),
    "each-gpu": (
        CLUSTER,
        "Per-GPU settings",
        "A kind and a memory cap for every single GPU.",
    ),
    "iteration": (
        PIPELINE,
        "Iteration time",
        "From the first forward of a mini-batch to its update, pipeline filling and emptying included.",
    ),
    "max-load": (
        PIPELINE,
        "Max-load",
        "The time that the busiest device needs for one sample. A pipeline that never stops gives one sample each "
        "time; filling and emptying are left out.",
    ),
    "makespan": (
        PIPELINE,
        "Makespan",
        "From the start to the end of one pass of the whole mini-batch, operator by operator, without a pipeline.",
    ),
    "stage": (
        PIPELINE,
        "Stage",
        "Operators that run together on one GPU (or on replicas) for each micro-batch.",
    ),
    "guarantee": (
        SEARCH,
        "Exact, heuristic",
        "An exact planner that ends proves that no plan is better. A heuristic finds good plans; the lower bound "
        "says how much better any other could be.",
    ),
    "live": (
        SEARCH,
        "Solve on change",
        "Ask for a new plan after every change. Off, changes wait for Solve.",
    ),
    "downset": (
        SEARCH,
        "Downset",
        "A set of operators together with all that they need: what has been computed at some moment. Exact "
        "planners go from one to the next.",
    ),
    "throughput": (
        RESULT,
        "Throughput",
        "Samples per second, over whole iterations.",
    ),
    "bubble": (
        RESULT,
        "Bubble",
        "Share of the devices' time in which they wait while a mini-batch runs: the pipeline fills and empties, "
        "stages differ, tensors travel.",
    ),
    "idle": (
        RESULT,
        "Idle",
        "Share of the time in which the devices that are used do nothing.",
    ),
    "peak": (
        RESULT,
        "Peak memory",
        "The most that any device holds at a moment: parameters, gradients, optimizer states, saved activations, "
        "buffers.",
    ),
    "bound": (
        RESULT,
        "Lower bound",
        "No plan can take less: proved. The gap is the share of the shown plan's time by which that lies above it; a "
        "gap of 0 is an optimum.",
    ),
    "in-flight": (
        RESULT,
        "In flight",
        "Micro-batches whose forward a stage has done and whose backward it has not: it holds their activations.",
    ),
    "phases": (
        RESULT,
        "Warm-up, steady, drain",
        "A pipeline fills, alternates forwards and backwards, and empties. The bands behind the rows show when.",
    ),
    "critical-path": (
        RESULT,
        "Critical path",
        "The chain of operators and transfers that decides when the schedule ends. Whatever is not on it could be "
        "slower at no cost.",
    ),
    "cut": (
        RESULT,
        "Cut",
        "Tensors that pass from one device to another, and their bytes.",
    ),
}

TERMS = {key: Term(word, meaning, part) for key, (part, word, meaning) in _TERMS.items()}
"""Of what is no setting, by the name under which the page refers to them."""
