"""What a lesson may light: settings that have a control, and parts of the page."""

CONTROLS = {
    "model": "Model",
    "training": "Training",
    "dtype": "precision",
    "devices": "GPUs",
    "memory": "Memory per GPU",
    "device_kind": "Device kind",
    "devices_per_node": "GPUs per node",
    "links": "Links",
    "bandwidth": "Bandwidth",
    "transfers": "Transfers",
    "memory_model": "Cap applies",
    "optimizer": "Optimizer",
    "precision": "Trained in",
    "cpus": "CPUs",
    "objective": "Objective",
    "execution": "What runs as a unit",
    "mini_batch": "Mini-batch",
    "micro_batches": "Micro-batches",
    "pipeline": "Pipeline",
    "max_replicas": "Replicate stages",
    "zero": "Replicas share",
    "recompute": "Recompute activations",
    "in_sequence": "Stages in sequence",
    "planner": "Planner",
    "contiguity": "Contiguity",
    "effort": "Effort",
    "time_limit": "Stop after",
    "seed": "Seed",
}
"""Settings by the names that a link gives them, with what the page calls their controls."""

PARTS = ("throughput", "time", "bubble", "peak_memory", "bound", "graph", "schedule", "memory_curves", "why", "help")
"""The five cards of key figures, then the pictures and the panels."""

LIGHTS = (*CONTROLS, *PARTS)
