"""What the words of the page mean, each in a sentence or two: shown beside controls and figures, and listed whole."""

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
    "training": (
        MODEL,
        "Training, inference",
        "Training runs forward, backward and update, and keeps gradients and optimizer states in memory. "
        "Inference runs the forward alone.",
    ),
    "dtype": (
        MODEL,
        "Number format",
        "What tensors are made of: bf16 and fp16 take half the bytes of fp32 and run faster on GPUs. Own: as the "
        "model was written.",
    ),
    "costs": (
        MODEL,
        "Costs",
        "The times that plans are made from: estimated from FLOPs and bytes for a kind of GPU, measured on "
        "hardware, or stated by the file.",
    ),
    "devices": (
        CLUSTER,
        "GPUs",
        "How many accelerators the plan may use. It may leave some idle where that is faster.",
    ),
    "memory": (
        CLUSTER,
        "Memory per GPU",
        "The cap that every GPU's memory must stay below at every moment. Lower it to see what a smaller card "
        "would need.",
    ),
    "kind": (
        CLUSTER,
        "Device kind",
        "Which accelerator: its speed, memory and bandwidth are taken from the makers' data sheets.",
    ),
    "node": (
        CLUSTER,
        "Node",
        "GPUs of one machine. Links between nodes are slower than those inside one.",
    ),
    "links": (
        CLUSTER,
        "Links",
        "What carries tensors between GPUs: a link of its own for each pair, or one wire that all transfers of a "
        "machine share.",
    ),
    "bandwidth": (
        CLUSTER,
        "Bandwidth",
        "Bytes a second that a link carries. Lower it to see what a slower network costs.",
    ),
    "transfers": (
        CLUSTER,
        "Transfers",
        "How sending goes together with computing: beside it on links, one channel a GPU, one each way, or "
        "blocking (a GPU that sends computes nothing).",
    ),
    "cap": (
        CLUSTER,
        "Cap applies to",
        "To the peak: what is held at each moment of the schedule. To the sum: parameters and all activations "
        "added up, as some papers count.",
    ),
    "optimizer": (
        CLUSTER,
        "Optimizer",
        "What a training step keeps beside each parameter and its gradient: Adam and AdamW two moments, momentum one "
        "velocity, Adafactor sums by row and column, SGD nothing. None counts no gradient either.",
    ),
    "precision": (
        CLUSTER,
        "Trained in",
        "As traced: weights, gradients and states all in the model's number format. Mixed: 16-bit weights beside fp32 "
        "copies (masters) and fp32 states, 16 bytes a parameter with Adam; 18 with gradients in fp32.",
    ),
    "keep-free": (
        CLUSTER,
        "Keep free",
        "Of each GPU's memory, for what no plan counts: the driver's context, buffers of communication, and what the "
        "allocator rounds up or cannot join.",
    ),
    "cpus": (
        CLUSTER,
        "CPUs",
        "Processors beside the GPUs that operators may run on, more slowly.",
    ),
    "mixed-kind": (
        CLUSTER,
        "Mixed with",
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
        "Each GPU by itself",
        "A kind and a memory cap for every single GPU.",
    ),
    "objective": (
        PIPELINE,
        "Objective",
        "What the plan makes small: the time of a training iteration, the busiest device's time per sample (max- "
        "load), or the end of one pass (makespan).",
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
    "unit": (
        PIPELINE,
        "What runs as a unit",
        "Operators are scheduled one by one, or all of a stage as one call.",
    ),
    "mini-batch": (
        PIPELINE,
        "Mini-batch",
        "Samples between two updates of the parameters.",
    ),
    "micro-batch": (
        PIPELINE,
        "Micro-batches",
        "Equal parts of the mini-batch that go through the pipeline one after another. More of them shorten the "
        "bubble; each is smaller and runs less efficiently.",
    ),
    "pipeline": (
        PIPELINE,
        "Order of the pipeline",
        "GPipe runs all forwards, then all backwards. 1F1B alternates them and holds fewer activations. "
        "Interleaved gives each GPU several stages. Zero-bubble splits the backward and fills gaps with weight "
        "gradients.",
    ),
    "replicas": (
        PIPELINE,
        "Replicate stages",
        "Several GPUs run the same stage on parts of each micro-batch (data parallelism), and add their gradients "
        "up at the end.",
    ),
    "zero": (
        PIPELINE,
        "Replicas share (ZeRO)",
        "What the replicas of a stage hold a part of each, rather than all: optimizer states and fp32 copies (1), "
        "gradients too (2), parameters too (3). Less memory; 2 and 3 send more.",
    ),
    "recompute": (
        PIPELINE,
        "Recompute activations",
        "Throw saved activations away and compute them again in the backward: less memory, about a third more work.",
    ),
    "sequence": (
        PIPELINE,
        "Stages in sequence",
        "Every stage waits for the one before it, as in systems whose stages form a chain. Off, branches run side "
        "by side.",
    ),
    "stage": (
        PIPELINE,
        "Stage",
        "Operators that run together on one GPU (or on replicas) for each micro-batch.",
    ),
    "planner": (
        SEARCH,
        "Planner",
        "The algorithm that looks for a plan. auto runs several and keeps the best.",
    ),
    "guarantee": (
        SEARCH,
        "Exact, heuristic",
        "An exact planner that ends proves that no plan is better. A heuristic finds good plans; the lower bound "
        "says how much better any other could be.",
    ),
    "contiguity": (
        SEARCH,
        "Contiguity",
        "Which sets of operators a GPU may hold. Acyclic: stages never wait for one another in a circle, as "
        "pipelines need. Convex: no path leaves a GPU and comes back. None: any set.",
    ),
    "effort": (
        SEARCH,
        "Effort",
        "How much work the search counts before it ends: quick about a seventh of normal, thorough eight times as "
        "much. The same question and effort give the same plan on every machine.",
    ),
    "guard": (
        SEARCH,
        "Stop after",
        "A guard only: most searches end by themselves, by counted work. One that it stops depends on the machine.",
    ),
    "seed": (
        SEARCH,
        "Seed",
        "Where the search's chance begins. Another seed may find another plan; the same one finds the same.",
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
"""By the name under which the page refers to them."""

KEYS = {term.word: key for key, term in TERMS.items()}
"""The other way round."""
