"""A plan's max-load and latency from a dnn-partitioning file alone, without the code under test."""

from __future__ import annotations

import math
from collections import defaultdict

from solvers.plan.plan import Plan


def max_load_ms(file: dict, plan: Plan) -> float:
    """The largest load of any device, in ms per sample; inf if a device is over its memory, holds what
    it cannot run, or a co-location group is torn apart."""
    accelerators = file["maxFPGAs"]
    device = _device_of(plan)
    ids = [node["id"] for node in file["nodes"]]
    at = {name: device[i] for i, name in enumerate(ids)}
    load, held = defaultdict(float), defaultdict(float)
    colours: dict[object, int] = {}
    for node in file["nodes"]:
        d = at[node["id"]]
        on_cpu = d >= accelerators
        load[d] += node["cpuLatency"] if on_cpu else node["fpgaLatency"]
        held[d] += node["size"]
        if not on_cpu and not node["supportedOnFpga"]:
            return math.inf
        if "colorClass" in node and colours.setdefault(node["colorClass"], d) != d:
            return math.inf
    if any(d < accelerators and amount > file["maxSizePerFPGA"] for d, amount in held.items()):
        return math.inf
    for source, (cost, targets) in _outputs(file).items():
        elsewhere = {at[target] for target in targets} - {at[source]}
        for d in elsewhere | ({at[source]} if elsewhere else set()):
            if d < accelerators:
                load[d] += cost
    return max(load.values())


def latency_ms(file: dict, plan: Plan) -> float:
    """When the last operator of one sample is done, in ms; inf as above.

    Stages on accelerators are calls, in the order of the plan; CPU operators start when their
    inputs are there.
    """
    accelerators = file["maxFPGAs"]
    nodes = file["nodes"]
    position = {node["id"]: i for i, node in enumerate(nodes)}
    before: dict[int, list[int]] = defaultdict(list)
    after: dict[int, list[int]] = defaultdict(list)
    for edge in file["edges"]:
        before[position[edge["destId"]]].append(position[edge["sourceId"]])
        after[position[edge["sourceId"]]].append(position[edge["destId"]])
    cost = {position[source]: ms for source, (ms, _) in _outputs(file).items()}
    if math.isinf(max_load_ms(file, plan)):
        return math.inf
    queues = [
        [set(plan.stages[action.stage].operators) for action in plan.order[d] if action.micro_batch == 0]
        for d in range(accelerators)
    ]
    on_cpu = {o for stage in plan.stages if stage.devices[0] >= accelerators for o in stage.operators}
    done: dict[int, float] = {}
    free = [0.0] * accelerators
    while len(done) < len(nodes):
        size = len(done)
        for o in on_cpu - done.keys():
            if all(source in done for source in before[o]):
                done[o] = max((done[source] for source in before[o]), default=0.0) + nodes[o]["cpuLatency"]
        for d, queue in enumerate(queues):
            while queue:
                call = queue[0]
                inputs = {source for o in call for source in before[o]} - call
                if not inputs <= done.keys():
                    break
                outputs = {o for o in call if set(after[o]) - call}
                took = sum(nodes[o]["fpgaLatency"] for o in call) + sum(cost.get(o, 0.0) for o in inputs | outputs)
                free[d] = max([free[d], *(done[source] for source in inputs)]) + took
                done.update((o, free[d]) for o in call)
                queue.pop(0)
        assert len(done) > size, "the plan's order deadlocks"
    return max(done.values())


def _device_of(plan: Plan) -> dict[int, int]:
    return {o: stage.devices[0] for stage in plan.stages for o in stage.operators}


def _outputs(file: dict) -> dict[object, tuple[float, set[object]]]:
    """Node id -> (ms to move its output, the nodes that read it)."""
    outputs: dict[object, tuple[float, set[object]]] = {}
    for edge in file["edges"]:
        outputs.setdefault(edge["sourceId"], (edge["cost"], set()))[1].add(edge["destId"])
    return outputs
