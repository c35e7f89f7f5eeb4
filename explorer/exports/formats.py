"""The formats that a plan can be taken away in: one list, for the command line, Python and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from explorer.words import text
from solvers.errors import InvalidProblem, UnsupportedProblem

if TYPE_CHECKING:  # the command line reads the list alone
    from explorer.exports.layers.written import Written
    from explorer.view.graph.palette import Theme
    from explorer.view.pictures.picture import Picture
    from solvers.formats.plan_json import PlanFile

    Write = Callable[[PlanFile], str | Picture]
    Launch = Callable[[PlanFile, bool], Written]
    """What writes a launcher's file: nearest says that what the format cannot say may be moved."""


@dataclass(frozen=True, slots=True)
class Exported:
    """data: of the file. lost and changed: see `Written`."""

    data: bytes
    lost: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """name: as on the command line. what: in a few words, for a menu. ending: of a file's name. media_type: of a
    download. writes: "module:function" in this package, a `Write`, loaded when it is asked for; it raises
    PlacementError, in one line, if the plan cannot be said in this format. launches: whether another program runs the
    plan from it (then it is a `Launch`). divides: what it can say that groups of devices divide
    (values of `solvers.problem.collectives.Axis`)."""

    name: str
    what: str
    ending: str
    media_type: str
    writes: str
    launches: bool = False
    divides: tuple[str, ...] = ()

    @property
    def themed(self) -> bool:
        """Whether it is a picture."""
        return self.media_type.startswith("image/")

    def export(self, file: PlanFile, theme: Theme = "light", *, nearest: bool = False) -> Exported:
        """A plan in this format. Raises PlacementError, in one line."""
        if nearest and not self.launches:
            raise InvalidProblem(f"nearest is for launchers; {self.name} says the plan as it is")
        from explorer.exports.layers.written import Written
        from explorer.view.pictures.picture import Picture

        write = resolve_name(f"explorer.exports.{self.writes}")
        made: str | Picture | Written = write(file, nearest) if self.launches else write(file)
        if isinstance(made, Written):
            return Exported(made.text.encode("utf-8"), made.lost, made.changed)
        if isinstance(made, Picture):
            return Exported(made.png(theme) if self.ending == ".png" else made.svg(theme).encode("utf-8"))
        return Exported(made.encode("utf-8"))


_ALL = (
    Format("plan", "the plan itself, which every command reads", ".json", "application/json", "tables:plan_text"),
    Format("placement-csv", "operator by operator: device, stage, seconds", ".csv", "text/csv", "tables:placement_csv"),
    Format("schedule-csv", "span by span: what runs where, from when to when", ".csv", "text/csv",
           "tables:schedule_csv"),
    Format("graph-svg", "the operators by device, as a drawing", ".svg", "image/svg+xml", "drawings:graph_of"),
    Format("gantt-svg", "the schedule, as a drawing", ".svg", "image/svg+xml", "drawings:gantt_of"),
    Format("stages-svg", "the DAG of stages, as a drawing", ".svg", "image/svg+xml", "drawings:stages_of"),
    Format("graph-png", "the operators by device, as an image", ".png", "image/png", "drawings:graph_of"),
    Format("gantt-png", "the schedule, as an image", ".png", "image/png", "drawings:gantt_of"),
    Format("stages-png", "the DAG of stages, as an image", ".png", "image/png", "drawings:stages_of"),
    Format("chrome-trace", "the schedule for ui.perfetto.dev", ".json", "application/json", "tables:trace_text"),
    Format("report-html", "a review with pictures, in one file", ".html", "text/html", "drawings:report_of"),
    *(
        Format(name, what, ending, media_type, f"launchers.{module}:{module}", launches=True,
               divides=("tensor", "context", "expert") if name in ("torchtitan", "megatron") else
               ("tensor",) if name in ("deepspeed", "vllm", "tp-plan", "torch-parallelize") else ())
        for name, what, ending, media_type in (
            ("torch-split", "where torch cuts the model, by module", ".json", "application/json"),
            ("torch-script", "a program that runs it with torch alone", ".py", "text/x-python"),
            ("torch-actions", "actions of every rank, for torch's runtime", ".csv", "text/csv"),
            ("torchtitan", "pipeline settings of torchtitan", ".toml", "application/toml"),
            ("megatron", "arguments of Megatron-LM", ".sh", "text/x-shellscript"),
            ("deepspeed", "a PipelineModule or the configuration of DeepSpeed", ".py", "text/x-python"),
            ("device-map", "Hugging Face's device_map, by module", ".json", "application/json"),
            ("vllm", "layers of every rank, for vLLM", ".sh", "text/x-shellscript"),
            ("tp-plan", "Hugging Face's tp_plan: a style for each module", ".json", "application/json"),
            ("torch-parallelize", "a function that divides the model, with torch alone", ".py", "text/x-python"),
        )
        for module in (name.replace("-", "_"),)
    ),
)  # fmt: skip
FORMATS: Mapping[str, Format] = {one.name: one for one in _ALL}
"""By name, in the order of a menu; those that launchers read last."""


def format_named(name: str) -> Format:
    """Raises InvalidProblem, in one line, for a name that is not there."""
    if name not in FORMATS:
        raise InvalidProblem(f"there is no format {name[:60]!r}; there are: {', '.join(FORMATS)}")
    return FORMATS[name]


def export_bytes(file: PlanFile, to: str, theme: Theme = "light", *, nearest: bool = False) -> bytes:
    """A plan in a format, by its name. nearest: of a launcher, see `explorer.exports.layers.nearest`. Raises
    PlacementError, in one line."""
    return export(file, to, theme, nearest=nearest).data


def export(file: PlanFile, to: str, theme: Theme = "light", *, nearest: bool = False) -> Exported:
    """The same with what the file does not say. Raises PlacementError, in one line."""
    one, degree = format_named(to), file.problem.graph.tensor_parallel
    from solvers.problem.collectives import Axis, axes_of, redundant_experts

    axes = axes_of(file.problem.graph)
    if one.launches and not axes.keys() <= set(one.divides):
        others = text.listing([name for name, other in FORMATS.items() if axes.keys() <= set(other.divides)], 8)
        divided = " and ".join(axis.divides for axis in axes)
        raise UnsupportedProblem(
            f"{to}: the plan divides {divided} over groups of {degree} devices, which this format does not say;"
            f" {others} do"
        )
    if one.launches and len(set(file.problem.graph.degrees)) > 1:
        raise UnsupportedProblem(
            f"{to}: the plan divides tensors over groups of different sizes, and launchers know of one size; plan with"
            " one degree (--tensor-parallel) to export it"
        )
    if one.launches and {Axis.CONTEXT, Axis.EXPERT} <= axes.keys():
        raise UnsupportedProblem(
            f"{to}: the plan divides tokens over {axes[Axis.CONTEXT]} inner groups and experts over the"
            f" {axes[Axis.EXPERT]} devices of each, and launchers lay experts over ranks of contexts, too; plan with"
            " one of --context-parallel and --expert-parallel to export it"
        )
    if one.launches and (redundant := redundant_experts(file.problem.graph)):
        raise UnsupportedProblem(
            f"{to}: the plan has {redundant} redundant experts in a group, which this format does not say; plan without"
            " --redundant-experts to export it"
        )
    made = one.export(file, theme, nearest=nearest)
    if one.launches and any(stage.offload for stage in file.plan.stages):
        lost = "what stages keep in their hosts' memory, which the plan's memory counts on: it stays on the devices"
        made = replace(made, lost=(*made.lost, lost))
    return made
