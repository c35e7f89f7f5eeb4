"""The operator graph as boxes: modules collapsed or expanded, tensors between them added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from explorer.view.graph.layered_layout import MOST_HEIGHT, Layout, layered_layout
from explorer.view.plan_types import Skeleton
from explorer.words import text

MAX_BOXES = 1500
MAX_EDGES = 2 * MAX_BOXES
MOST_ARROWS = 400
"""Edges of a drawing with arrow heads: nobody can see more of them."""
LABEL = 12
FORWARD = "forward"


@dataclass(frozen=True)
class GraphView:
    """boxes: element id -> positions of its operators. owner: operator -> element id. edges: (source,
    target) ids, each with the positions of the tensors it stands for. expanded: module paths shown
    as their parts. collapsed: the limit forced some of them shut."""

    boxes: dict[str, list[int]]
    owner: list[str]
    labels: dict[str, str]
    expandable: frozenset[str]
    edges: dict[tuple[str, str], list[int]]
    expanded: frozenset[str]
    layout: Layout
    collapsed: bool
    depth: int


def depths(skeleton: Skeleton) -> int:
    """The number of levels: 1 is the top modules; on the last, no box holds several operators that are drawn."""
    held: dict[str, set[int]] = {}
    for path, anchor in {(skeleton["modules"][anchor], anchor) for anchor in skeleton["anchors"]}:
        for prefix in prefixes(path):
            held.setdefault(prefix, set()).add(anchor)
    return 1 + max((len(module_parts(path)) for path, drawn in held.items() if len(drawn) > 1), default=0)


def expanded_to(skeleton: Skeleton, depth: int) -> frozenset[str]:
    """The modules to expand so that ``depth`` levels show."""
    expanded: set[str] = set()
    for path in set(skeleton["modules"]):
        expanded.update(prefixes(path)[: depth - 1])
    return frozenset(expanded)


def opened_for(view: GraphView, skeleton: Skeleton, element: str) -> frozenset[str] | None:
    """The modules that are expanded once ``element`` is opened: a module box, or an operator's own ("o:" and its
    position), which may be hidden in shut ones; None for any other."""
    if element in view.expandable:
        return view.expanded | {element[2:]}
    kind, _, operator = element.partition(":")
    if kind != "o" or not operator.isdecimal() or int(operator) >= len(skeleton["modules"]):
        return None
    others = frozenset() if view.collapsed else view.expanded  # among as many boxes as there may be, nothing is opened
    return others.union(prefixes(skeleton["modules"][int(operator)]))


def graph_view(
    skeleton: Skeleton, expanded: frozenset[str], aspect: float = 0.85, height: float = MOST_HEIGHT
) -> GraphView:
    """Boxes, aggregated edges and their layout; at most so many of each, else modules are shut. aspect and height: as
    of `layered_layout`."""
    collapsed = False
    while True:
        owner = owners(skeleton, expanded)
        edges = _edges(skeleton, owner)
        boxes: dict[str, list[int]] = {}
        for i, name in enumerate(owner):
            boxes.setdefault(name, []).append(i)
        if (len(boxes) <= MAX_BOXES and len(edges) <= MAX_EDGES) or not expanded:
            break
        deepest = max(len(module_parts(path)) for path in expanded)
        expanded = frozenset(path for path in expanded if len(module_parts(path)) < deepest)
        collapsed = True
    index = {name: i for i, name in enumerate(boxes)}
    layout = layered_layout(len(boxes), [(index[a], index[b]) for a, b in edges], aspect, height)
    depth = 1 + max((len(module_parts(path)) for path in expanded), default=0)
    labels = _labels(skeleton, list(boxes))
    expandable = frozenset(name for name in boxes if name.startswith("m:"))
    return GraphView(boxes, owner, labels, expandable, edges, expanded, layout, collapsed, depth)


def cytoscape_elements(view: GraphView, skeleton: Skeleton) -> list[dict[str, object]]:
    """The elements of dash-cytoscape, without any device: classes are laid over them per plan."""
    elements: list[dict[str, object]] = []
    sources = [source for source, _ in view.edges]
    feeds = Counter(sources[number] for number in view.layout.fans)
    for (name, members), (x, y) in zip(view.boxes.items(), view.layout.positions, strict=True):
        label = text.short_path(view.labels[name], LABEL)
        data: dict[str, object] = {"id": name, "label": label, "name": label, "operators": len(members)}
        data["wide"] = view.layout.box_width
        if name.startswith("o:"):
            data["full"] = full_name(skeleton, name)
        if feeds[name]:
            data["feeds"] = feeds[name]
        elements.append(
            {
                "data": data,
                "position": {"x": round(x, 1), "y": round(y, 1)},
                "classes": "module" if name in view.expandable else "operator",
            }
        )
    for number, (source, target) in enumerate(view.edges):
        data = {"id": f"e:{number}", "source": source, "target": target, "label": ""}
        route = view.layout.routes.get(number)
        if route is not None:
            data["weights"], data["distances"] = (" ".join(f"{v:.3f}" for v in part) for part in route)
        classes = "wrapped" if route else "fan" if number in view.layout.fans else "short"
        if number in view.layout.bowed:
            classes += " bowed"
        if len(view.edges) > MOST_ARROWS:
            classes += " plain"
        elements.append({"data": data, "classes": classes})
    return elements


class Assignment(TypedDict):
    """What a plan lays over boxes. nodes: of each its devices, most operators first; cuts: of edges label and bytes;
    inside: the same of boxes that are cut themselves, by forward tensors."""

    nodes: dict[str, list[int]]
    cuts: dict[str, tuple[str, float]]
    inside: dict[str, tuple[str, float]]


def assignment(view: GraphView, skeleton: Skeleton, placement: Sequence[Sequence[int]], samples: float) -> Assignment:
    """What a plan lays over the boxes; bytes are counted once per tensor and destination device."""
    nodes: dict[str, list[int]] = {}
    for name, members in view.boxes.items():
        used = Counter(device for i in members for device in placement[i])
        nodes[name] = [device for device, _ in sorted(used.items(), key=lambda kv: (-kv[1], kv[0]))]
    cuts: dict[str, tuple[str, float]] = {}
    for number, ((_, target), tensors) in enumerate(view.edges.items()):
        home = nodes[target]
        if len(home) == 1 and all(list(placement[skeleton["tensors"][t][0]]) == home for t in tensors):
            continue
        total = 0.0
        crosses = False
        for t in tensors:
            producer, consumers, fixed, per_sample = skeleton["tensors"][t]
            there = {d for c in consumers if view.owner[c] == target for d in placement[c]}
            away = len(there - set(placement[producer]))
            crosses = crosses or away > 0
            total += away * (fixed + per_sample * samples)
        if crosses:
            cuts[f"e:{number}"] = (text.nbytes(total) if total else "", total)
    inside: dict[str, tuple[str, float]] = {}
    for producer, consumers, fixed, per_sample in skeleton["tensors"]:
        box = view.owner[producer]
        if len(nodes[box]) < 2 or skeleton["phases"][producer] != FORWARD:
            continue
        there = {
            d for c in consumers if view.owner[c] == box and skeleton["phases"][c] == FORWARD for d in placement[c]
        }
        total = len(there - set(placement[producer])) * (fixed + per_sample * samples)
        if total:
            total += inside.get(box, ("", 0.0))[1]
            inside[box] = text.nbytes(total), total
    return {"nodes": nodes, "cuts": cuts, "inside": inside}


def table(view: GraphView, skeleton: Skeleton, nodes: Mapping[str, Sequence[int]]) -> list[dict[str, object]]:
    """The graph's table twin: one row a box; pick: what its name selects."""
    after: dict[str, list[str]] = {}
    for source, target in view.edges:
        after.setdefault(source, []).append(full_name(skeleton, target))
    return [
        {
            "name": full_name(skeleton, name),
            "pick": ("box", name),
            "operators": text.count(len(members)),
            "devices": ", ".join(map(str, nodes.get(name, ()))) or text.NOTHING,
            "parameters": text.nbytes(sum(skeleton["params"][i] for i in members)),
            "feeds": text.listing(after.get(name, []), 3),
        }
        for name, members in view.boxes.items()
    ]


def full_name(skeleton: Skeleton, element: str) -> str:
    """The module path or operator name behind an element id."""
    kind, _, rest = element.partition(":")
    if kind == "m":
        return rest
    names: list[str] = skeleton["names"]
    return names[int(rest)]


def prefixes(path: str) -> list[str]:
    """A module's path and those of all modules around it, the outermost first."""
    parts = module_parts(path)
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def module_parts(path: str) -> list[str]:
    """The names along a module path."""
    return path.split(".") if path else []


def owners(skeleton: Skeleton, expanded: frozenset[str]) -> list[str]:
    """The id of the box that each operator is in."""
    modules, anchors = skeleton["modules"], skeleton["anchors"]
    shut: dict[str, str | None] = {}
    owner: list[str] = []
    for i in range(skeleton["operators"]):
        anchor = anchors[i]
        path = modules[anchor]
        if path not in shut:
            shut[path] = _first_shut(path, expanded)
        box = shut[path]
        owner.append(f"m:{box}" if box is not None else f"o:{anchor}")
    return owner


def _first_shut(path: str, expanded: frozenset[str]) -> str | None:
    return next((prefix for prefix in prefixes(path) if prefix not in expanded), None)


def _edges(skeleton: Skeleton, owner: Sequence[str]) -> dict[tuple[str, str], list[int]]:
    """Edges between boxes by forward tensors: what flows back mirrors them."""
    phases = skeleton["phases"]
    edges: dict[tuple[str, str], list[int]] = {}
    for t, (producer, consumers, _, _) in enumerate(skeleton["tensors"]):
        if phases[producer] != FORWARD:
            continue
        targets = {owner[c] for c in consumers if phases[c] == FORWARD} - {owner[producer]}
        for target in sorted(targets):
            edges.setdefault((owner[producer], target), []).append(t)
    return edges


def _labels(skeleton: Skeleton, boxes: Sequence[str]) -> dict[str, str]:
    """The shortest tail of each name that no other box has; "layers.4" rather than a bare number."""
    parts = {box: module_parts(full_name(skeleton, box).replace("/", ".")) for box in boxes}
    labels: dict[str, str] = {}
    todo = list(boxes)
    for length in range(1, max((len(p) for p in parts.values()), default=1) + 1):
        tails = {box: ".".join(parts[box][-length:]) for box in todo}
        times = Counter(tails.values())
        labels.update(tails)
        todo = [b for b in todo if times[tails[b]] > 1 or tails[b].replace(".", "").isdigit()]
        if not todo:
            break
    return labels
