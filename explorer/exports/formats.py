"""The formats that a plan can be taken away in: one list, for the command line, Python and the page's menu."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.exports.format import Exported, Format
from explorer.exports.launch_formats import LAUNCHERS
from explorer.view.graph.palette import Theme
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import PlanFile


def _plan(file: PlanFile, _: Theme) -> str:
    from solvers.formats.plan_json import write_plan

    return write_plan(file.problem, file.plan, file.result, file.reference)


def _placement(file: PlanFile, _: Theme) -> str:
    from explorer.exports.tables import placement_csv

    return placement_csv(file)


def _schedule(file: PlanFile, _: Theme) -> str:
    from explorer.exports.tables import schedule_csv

    return schedule_csv(file)


def _graph_svg(file: PlanFile, theme: Theme) -> str:
    from explorer.exports.drawings import graph_of

    return graph_of(file).svg(theme)


def _gantt_svg(file: PlanFile, theme: Theme) -> str:
    from explorer.exports.drawings import gantt_of

    return gantt_of(file).svg(theme)


def _stages_svg(file: PlanFile, theme: Theme) -> str:
    from explorer.exports.drawings import stages_of

    return stages_of(file).svg(theme)


def _stages_png(file: PlanFile, theme: Theme) -> bytes:
    from explorer.exports.drawings import stages_of

    return stages_of(file).png(theme)


def _graph_png(file: PlanFile, theme: Theme) -> bytes:
    from explorer.exports.drawings import graph_of

    return graph_of(file).png(theme)


def _gantt_png(file: PlanFile, theme: Theme) -> bytes:
    from explorer.exports.drawings import gantt_of

    return gantt_of(file).png(theme)


def _trace(file: PlanFile, _: Theme) -> str:
    from solvers.evaluation.simulation import simulate
    from solvers.formats.chrome_trace import chrome_trace
    from solvers.formats.json_text import dump_json

    problem = file.problem
    return dump_json(chrome_trace(simulate(problem, file.plan, fold=False), problem.graph, problem.cluster))


def _report(file: PlanFile, _: Theme) -> str:
    from explorer.reviews.report_page import report_page
    from explorer.reviews.review import review

    told = review(file.problem, file.plan, file.result)
    return report_page(told, file.problem, file.reference, () if file.result is None else file.result.notes)


_ALL = (
    Format("plan", "the plan itself, which every command reads", ".json", "application/json", _plan),
    Format("placement-csv", "operator by operator: device, stage, seconds", ".csv", "text/csv", _placement),
    Format("schedule-csv", "span by span: what runs where, from when to when", ".csv", "text/csv", _schedule),
    Format("graph-svg", "the operators by device, as a drawing", ".svg", "image/svg+xml", _graph_svg, True),
    Format("gantt-svg", "the schedule, as a drawing", ".svg", "image/svg+xml", _gantt_svg, True),
    Format("stages-svg", "the DAG of stages, as a drawing", ".svg", "image/svg+xml", _stages_svg, True),
    Format("graph-png", "the operators by device, as an image", ".png", "image/png", _graph_png, True),
    Format("gantt-png", "the schedule, as an image", ".png", "image/png", _gantt_png, True),
    Format("stages-png", "the DAG of stages, as an image", ".png", "image/png", _stages_png, True),
    Format("chrome-trace", "the schedule for ui.perfetto.dev", ".json", "application/json", _trace),
    Format("report-html", "a review with pictures, in one file", ".html", "text/html", _report),
    *LAUNCHERS,
)
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
    return format_named(to).export(file, theme, nearest=nearest)
