"""The JSON of an exported program (torch's export schema, version 8) as a `Captured`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from explorer.tracing.captured import Captured, Node, Value
from explorer.tracing.views import VIEWS_OF_EACH, is_view_of
from solvers.errors import InvalidProblem

DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
    29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu",
    34: "uint32", 35: "uint64",
}  # fmt: skip
"""torch._export.serde.schema.ScalarType."""

GRAD_MODE = "higher_order.wrap_with_set_grad_enabled"
AUTOCAST = "higher_order.wrap_with_autocast"

WITHOUT_GRADIENT = frozenset(
    f"aten.{name}"
    for name in ("detach", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like",
                 "new_zeros", "new_ones", "new_empty", "new_full")
)  # fmt: skip
"""Calls whose result carries no gradient whatever they read."""

MAX_NUMEL = 2**50
"""More elements in one tensor are a mistake, or an attempt to overflow."""

Json = dict[str, Any]


class Program:
    """Reads one document. Names in inner graphs (blocks under no_grad) are put under their node's."""

    def __init__(self, name: str, document: Json, training: bool) -> None:
        self.name = name
        self.module = document["graph_module"]
        self.training = training
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []

    def captured(self) -> Captured:
        graph, signature = self.module["graph"], self.module["signature"]
        scope: dict[str, str] = {}
        parameters: dict[str, str] = {}
        buffers: list[str] = []
        inputs: list[str] = []
        for spec in signature["input_specs"]:
            ((kind, detail),) = spec.items()
            argument = detail.get("arg") or {}  # a constant argument is stated by name and value alone
            tensor = argument.get("as_tensor") if kind == "user_input" else argument
            if not isinstance(tensor, dict) or tensor.get("name") not in graph["tensor_values"]:
                continue
            label = str(tensor["name"])
            meta = graph["tensor_values"][label]
            trainable = self.training and kind == "parameter" and bool(meta.get("requires_grad"))
            self._enter(label, meta, trainable, None)
            scope[label] = label
            if kind == "parameter":
                parameters[label] = str(detail["parameter_name"])
            elif kind == "user_input":
                inputs.append(label)
            else:
                buffers.append(label)
        self._read(graph, scope, "", self.training)
        outputs = [
            scope[name]
            for spec in signature["output_specs"]
            for kind, detail in spec.items()
            if kind in ("user_output", "loss_output")
            for name in _tensor_names(detail["arg"])
        ]
        batches = [self.values[label].shape[0] for label in inputs if self.values[label].shape]
        if not batches or batches[0] < 1:
            raise InvalidProblem(f"{self.name}: no input of the program has a batch dimension")
        read = {name for node in self.nodes for _, name in node.tensors}
        return Captured(
            name=self.name.removesuffix(".pt2"),
            samples=batches[0],
            values=self.values,
            nodes=tuple(self.nodes),
            parameters={label: named for label, named in parameters.items() if label in read},
            buffers=tuple(buffers),
            inputs=tuple(inputs),
            outputs=tuple(dict.fromkeys(outputs)),
        )

    def _enter(self, name: str, meta: Json, requires_grad: bool, base: str | None) -> None:
        if name in self.values:  # views would then look into themselves
            raise InvalidProblem(f"{self.name}: two tensors are named {name!r}")
        shape = tuple(self._size(size) for size in meta["sizes"])
        strides = tuple(self._size(stride) for stride in meta["strides"])
        dtype = DTYPES.get(meta["dtype"])
        if dtype is None or len(shape) != len(strides):
            raise InvalidProblem(f"{self.name}: tensor {name!r} has an unknown dtype or strides unlike its shape")
        value = Value(name, shape, strides, dtype, requires_grad, base)
        if value.numel > MAX_NUMEL:
            raise InvalidProblem(f"{self.name}: tensor {name!r} has {value.numel:,} elements")
        self.values[name] = value

    def _size(self, size: Json) -> int:
        """A fixed size, or for a symbolic one the size of the example (its expression is not evaluated)."""
        stated = size.get("as_int")
        if stated is None:
            stated = ((size.get("as_expr") or {}).get("hint") or {}).get("as_int")
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 0:
            raise InvalidProblem(f"{self.name}: a dynamic size has no example value; export with fixed shapes")
        return stated

    def _read(self, graph: Json, scope: dict[str, str], prefix: str, training: bool) -> None:
        for number, node in enumerate(graph["nodes"]):
            target = str(node["target"]).removeprefix("torch.ops.")
            label = prefix + str(node.get("name") or f"node_{number}")
            if target in (GRAD_MODE, AUTOCAST):
                self._block(node, target, scope, label, training)
            elif target.startswith("higher_order."):
                raise InvalidProblem(f"{self.name}: {target} (control flow inside the graph) is not supported")
            else:
                self._call(graph, node, target, scope, prefix, label, training)

    def _call(
        self, graph: Json, node: Json, target: str, scope: dict[str, str], prefix: str, label: str, training: bool
    ) -> None:
        parts = target.split(".")
        op_type = ".".join(parts[:2]) if len(parts) > 2 else target
        tensors: list[tuple[str, str]] = []
        constants: dict[str, object] = {}
        for argument in node["inputs"]:
            named = str(argument["name"])
            arguments = [scope[name] for name in _tensor_names(argument["arg"])]
            tensors += [(named, value) for value in arguments]
            if not arguments:
                constants[named] = next(iter(argument["arg"].values()), None)
        in_place = parts[1].endswith("_") and not parts[1].endswith("__") if len(parts) > 1 else False
        mutates = (tensors[0][1],) if in_place and tensors else ()
        call = Node(label, op_type, _module_path(node), tuple(tensors), constants, (), mutates)
        names = [name for output in node["outputs"] for name in _tensor_names(output)]
        outputs = []
        each = call.target in VIEWS_OF_EACH and len(names) == len(tensors)
        for position, name in enumerate(names):
            self._enter(prefix + name, graph["tensor_values"][name], False, None)
            scope[name] = prefix + name
            outputs.append(prefix + name)
            of = replace(call, tensors=(tensors[position],)) if each else call
            self._complete(of, prefix + name, training)
        self.nodes.append(Node(label, op_type, call.module_path, call.tensors, constants, tuple(outputs), mutates))

    def _complete(self, call: Node, output: str, training: bool) -> None:
        """Whether it is a view, and whether it carries a gradient: any differentiable input does."""
        value = self.values[output]
        base = None
        if call.mutates:
            base = call.mutates[0]
        elif call.tensors and is_view_of(call, self.values[call.tensors[0][1]], value):
            base = call.tensors[0][1]
        carries = (
            training
            and value.is_float
            and call.target not in WITHOUT_GRADIENT
            and any(self.values[name].requires_grad for _, name in call.tensors)
        )
        self.values[output] = replace(value, requires_grad=carries, base=base)
        if call.mutates and carries:
            self._carry(output)

    def _carry(self, written: str) -> None:
        """Everything that shares the storage of ``written`` carries a gradient from here on."""
        root = self._root(written)
        for name, value in self.values.items():
            if value.is_float and self._root(name) == root:
                self.values[name] = replace(value, requires_grad=True)

    def _root(self, name: str) -> str:
        while (base := self.values[name].base) is not None:
            name = base
        return name

    def _block(self, node: Json, target: str, scope: dict[str, str], label: str, training: bool) -> None:
        arguments = [argument["arg"] for argument in node["inputs"]]
        position = next(i for i, argument in enumerate(arguments) if "as_graph" in argument)
        inner = arguments[position]["as_graph"]["graph"]
        given = [scope[name] for argument in arguments[position + 1 :] for name in _tensor_names(argument)]
        expected = [name for argument in inner["inputs"] for name in _tensor_names(argument)]
        inside = dict(zip(expected, given, strict=True))
        enabled = training and (target != GRAD_MODE or bool(arguments[0].get("as_bool")))
        self._read(inner, inside, f"{label}.", enabled)
        made = [inside[name] for argument in inner["outputs"] for name in _tensor_names(argument)]
        names = [name for output in node["outputs"] for name in _tensor_names(output)]
        scope.update(zip(names, made, strict=True))


def _tensor_names(argument: Json) -> Iterator[str]:
    """The tensors in one argument or output, in order."""
    for kind, value in argument.items():
        if kind in ("as_tensor", "as_optional_tensor"):
            inner = value.get("as_tensor", value)
            if isinstance(inner, dict) and "name" in inner:
                yield inner["name"]
        elif kind == "as_tensors":
            yield from (tensor["name"] for tensor in value)
        elif kind == "as_optional_tensors":
            for tensor in value:
                yield from _tensor_names(tensor)
        elif kind == "as_nested_tensors":
            yield from (tensor["name"] for row in value for tensor in row)


def _module_path(node: Json) -> str:
    """The innermost of "key,path,class;key,path,class"; a path may hold commas only in odd names."""
    stack = (node.get("metadata") or {}).get("nn_module_stack") or ""
    parts = stack.split(";")[-1].split(",")
    return parts[1] if len(parts) >= 3 else ""
