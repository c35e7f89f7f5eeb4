"""The formats that a plan can be taken away in: one list, for the command line, Python and the page's menu."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.exports.format import Exported, Format
from explorer.view.graph.palette import Theme
from solvers.errors import InvalidProblem, UnsupportedProblem
from solvers.formats.plan_json import PlanFile

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
        Format(name, what, ending, media_type, f"launchers.{module}:{module}", launches=True)
        for name, what, ending, media_type in (
            ("torch-split", "where torch cuts the model, by module", ".json", "application/json"),
            ("torch-script", "a program that runs it with torch alone", ".py", "text/x-python"),
            ("torch-actions", "actions of every rank, for torch's runtime", ".csv", "text/csv"),
            ("torchtitan", "pipeline settings of torchtitan", ".toml", "application/toml"),
            ("megatron", "arguments of Megatron-LM", ".sh", "text/x-shellscript"),
            ("deepspeed", "a PipelineModule of DeepSpeed", ".py", "text/x-python"),
            ("device-map", "Hugging Face's device_map, by module", ".json", "application/json"),
            ("vllm", "layers of every rank, for vLLM", ".sh", "text/x-shellscript"),
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
    if format_named(to).launches and (degree := file.problem.graph.tensor_parallel) > 1:
        raise UnsupportedProblem(
            f"{to}: the plan divides tensors over groups of {degree} devices, which is not written for launchers yet;"
            " plan, tables and drawings can be exported"
        )
    return format_named(to).export(file, theme, nearest=nearest)
