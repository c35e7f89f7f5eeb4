"""A model as launchers count it: its layers and what stands beside them, as modules in the order of the forward."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from explorer.exports.layers.chain import Chain
from explorer.exports.layers.recomputation import Again, regions_again
from explorer.exports.layers.written import path_of
from explorer.words import text
from solvers.errors import UnsupportedProblem
from solvers.problem.collectives import COLLECTIVE
from solvers.problem.graph import OpGraph, Phase

ATTENTION = ("attention", "softmax")
"""A transformer layer has an operator whose type has one of these in it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A module that launchers place as a whole. operators: its forward ones, positions ascending. listed: the list of
    modules (`nn.ModuleList`, `nn.Sequential`) it is an element of; "" if of none."""

    name: str
    operators: tuple[int, ...]
    listed: str = ""


@dataclass(frozen=True)
class Units:
    """units: in the order in which the forward first comes to them. outside: forward operators of the modules around
    them, which are in none."""

    units: tuple[Unit, ...]
    outside: tuple[int, ...]

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """Positions of the units of the list that has the most operators; empty if there is no list."""
        sizes = Counter({unit.listed: 0 for unit in self.units})
        for unit in self.units:
            sizes[unit.listed] += len(unit.operators)
        del sizes[""]
        if not sizes:
            return ()
        most = sizes.most_common(1)[0][0]
        return tuple(i for i, unit in enumerate(self.units) if unit.listed == most)


@dataclass(frozen=True)
class Layout:
    """of: unit -> its stage."""

    chain: Chain
    model: Units
    of: tuple[int, ...]

    def names(self, *, copied: bool = False) -> tuple[tuple[str, ...], ...]:
        """Per stage the names of its modules, in the order of the forward. copied: modules that are cheap and have no
        parameters (tables of angles) are in every stage that reads of them."""
        names: list[list[str]] = [[] for _ in self.chain.plan.stages]
        for unit, at in zip(self.model.units, self.of, strict=True):
            for stage in sorted({at} | (self._reading(unit) if copied else set())):
                names[stage].append(path_of(unit.name))
        return tuple(map(tuple, names))

    @cached_property
    def again(self) -> Again:
        """How the plan recomputes, as launchers have it."""
        chain, operators = self.chain, self.chain.graph.operators
        if chain.recomputing:
            return Again.STAGES if len(chain.recomputing) == len(chain.plan.stages) else Again.PARTS
        region_of = regions_again(chain.problem)
        if not region_of:
            return Again.NOTHING
        layers = []
        for i in self.model.layers:
            own = self.model.units[i].operators
            layers.append({region_of.get(o, "") for o in own if not operators[o].replicable})
        by_layer = [name for names in layers for name in names]
        if len(by_layer) != len(layers) or len(set(by_layer)) < len(layers) or set(by_layer) != {*region_of.values()}:
            return Again.PARTS
        return Again.OPERATORS if any(operators[o].cached for o in region_of) else Again.LAYERS

    def _reading(self, unit: Unit) -> set[int]:
        graph, homes = self.chain.graph, self.chain.homes
        if not all(graph.operators[o].replicable for o in unit.operators):
            return set()
        return {min(homes[s]) for o in unit.operators for s in graph.successors[o] if s in homes}

    def outside_notes(self) -> list[str]:
        """A sentence on the operators that are in no module of the list, if there are any."""
        operators = self.chain.graph.operators
        outside = [operators[o] for o in self.model.outside if not operators[o].replicable]
        names = [one.name for one in outside if not one.op_type.startswith(COLLECTIVE)]
        past = [f"{each}: computed in every stage that reads it" for each in self.chain.skips(copied=True)]
        if not names:
            return past
        sentence = f"{text.listing(names)}: in no module of the list; run where the forward of the model calls them"
        return [*past, sentence]


def units_of(graph: OpGraph) -> Units:
    """The first modules on every way down that are elements of a list, and all others that have no list below.

    Raises UnsupportedProblem if there are none: a workload file names operators alone.
    """
    forward = [i for i, operator in enumerate(graph.operators) if operator.phase is Phase.FORWARD]
    lists: set[str] = set()
    for i in forward:
        parts = graph.operators[i].module_path.split(".")
        at = next((n for n, part in enumerate(parts) if part.isdigit()), None)
        if at:
            lists.add(".".join(parts[:at]))
    opened = {".".join(each.split(".")[:n]) for each in lists for n in range(len(each.split(".")))} | lists | {""}
    by_path: dict[str, list[int]] = {}
    outside = []
    for i in forward:
        parts = graph.operators[i].module_path.split(".")
        name = next((p for n in range(1, len(parts) + 1) if (p := ".".join(parts[:n])) not in opened), None)
        if name is None:
            outside.append(i)
        else:
            by_path.setdefault(name, []).append(i)
    if not by_path:
        raise UnsupportedProblem("the graph names no modules, and launchers place modules; plan a traced model")
    units = (Unit(name, tuple(of), owner if (owner := name.rpartition(".")[0]) in lists else "")
             for name, of in by_path.items())  # fmt: skip
    return Units(tuple(units), tuple(outside))


def cut_units(chain: Chain, model: Units) -> list[tuple[Unit, tuple[int, ...]]]:
    """Units of which operators are in several stages, and these."""
    cut = []
    for unit in model.units:
        stages = sorted({min(chain.homes[o]) for o in unit.operators if not chain.graph.operators[o].replicable})
        if len(stages) > 1:
            cut.append((unit, tuple(stages)))
    return cut


def layout_of(chain: Chain) -> Layout:
    """Raises UnsupportedProblem, with the module's name, if one is in several stages, if parameters are in none or are
    shared between stages, or if the forward does not run the modules stage after stage."""
    model = units_of(chain.graph)
    operators = chain.graph.operators
    cut = cut_units(chain, model)
    if cut:
        unit, stages = cut[0]
        held = Counter(min(chain.homes[o]) for o in unit.operators)
        parts = ", ".join(f"{text.plural(held[s], 'operator')} in stage {s}" for s in stages)
        more = f" (and {text.plural(len(cut) - 1, 'other')})" if len(cut) > 1 else ""
        raise UnsupportedProblem(
            f"the module {unit.name}{more} is cut: {parts}; this format has whole modules (--nearest gives each to the"
            " stage that does most of its work)"
        )
    check_shared(chain)
    if past := chain.skips(copied=False):
        raise UnsupportedProblem(f"{past[0]} goes past a stage; here a stage takes what the one before gives")
    outside = [o for o in model.outside if operators[o].param_bytes]
    if outside:
        raise UnsupportedProblem(
            f"{operators[outside[0]].name} reads parameters that the model itself holds, in no module of its own, so no"
            " list of modules says where they are; put them into a module"
        )
    of = []
    for unit in model.units:
        fixed = [o for o in unit.operators if not operators[o].replicable]
        of.append(min(chain.homes[o][0] for o in fixed or unit.operators))
    for before, after in pairwise(range(len(of))):
        if of[before] > of[after] and not all(operators[o].replicable for o in model.units[before].operators):
            raise UnsupportedProblem(
                f"the forward runs {model.units[before].name} (stage {of[before]}) before {model.units[after].name}"
                f" (stage {of[after]}); this format has the modules stage after stage"
            )
    return Layout(chain, model, tuple(of))


def check_shared(chain: Chain) -> None:
    """Raises UnsupportedProblem if operators that must share a device are in several stages: launchers copy modules,
    so that a parameter of both would be two."""
    first: dict[str, int] = {}
    for i, operator in enumerate(chain.graph.operators):
        if operator.colocation is None or i not in chain.homes:
            continue
        other = first.setdefault(operator.colocation, i)
        a, b = min(chain.homes[other]), min(chain.homes[i])
        if a != b:
            name = chain.graph.operators[other].name
            raise UnsupportedProblem(
                f"{name} (stage {a}) and {operator.name} (stage {b}) share {operator.colocation}; a copy in each stage"
                " would be two parameters"
            )


def counted_layers(layout: Layout, launcher: str) -> list[int]:
    """Per stage how many layers it has. Raises UnsupportedProblem, naming the module that stands elsewhere."""
    units, layers = layout.model.units, layout.model.layers
    if not layers:
        raise UnsupportedProblem(f"the model has no list of layers, and {launcher} counts layers")
    lists = list(dict.fromkeys(unit.listed for unit in units if unit.listed))
    if len(lists) > 1:
        raise UnsupportedProblem(f"the model has several lists of layers, {text.listing(lists)}; {launcher} has one")
    operators = layout.chain.graph.operators
    for i in layers:
        if not any(word in operators[o].op_type for o in units[i].operators for word in ATTENTION):
            raise UnsupportedProblem(f"{units[i].name} has no attention; a layer of {launcher} is a transformer's")
    last = len(layout.chain.plan.stages) - 1
    for i, unit in enumerate(units):
        if i in layers:
            continue
        if layers[0] < i < layers[-1]:
            raise UnsupportedProblem(
                f"{unit.name} runs between the layers of {units[layers[0]].listed}; {launcher} has one row of layers"
            )
        place, where = (0, "first") if i < layers[0] else (last, "last")
        if layout.of[i] != place:
            raise UnsupportedProblem(
                f"{unit.name} is in stage {layout.of[i]}, and {launcher} has what is not a layer of"
                f" {units[layers[0]].listed} in the first or the last stage (this belongs into the {where})"
            )
    return [sum(layout.of[i] == stage for i in layers) for stage in range(last + 1)]
