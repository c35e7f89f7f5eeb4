"""The pictures of a plan in a file, and the report that has all of them."""

from __future__ import annotations

from explorer.reviews.report_page import report_page
from explorer.reviews.review import review, view_of
from explorer.view.graph.skeleton import skeleton
from explorer.view.graph.stage_boxes import MAX_STAGES
from explorer.view.pictures.gantt import gantt_picture
from explorer.view.pictures.graph import graph_picture
from explorer.view.pictures.picture import Picture
from explorer.view.pictures.stages import stages_picture
from explorer.words import text
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.formats.workload import Workload


def gantt_of(file: PlanFile) -> Picture:
    """The schedule. Raises InvalidPlan if the plan cannot be simulated."""
    view = view_of(file.problem, file.plan, file.result)
    heading = f"{_name(file)}, {text.seconds(view['objective_s'])} {view['objective']}"
    return gantt_picture(view, heading=heading, operators=[o.name for o in file.problem.graph.operators])


def graph_of(file: PlanFile) -> Picture:
    """The operators by device. Raises InvalidPlan if the plan cannot be simulated."""
    workload = Workload(file.problem.graph, file.reference, training=file.problem.training)
    view = view_of(file.problem, file.plan, file.result)
    return graph_picture(skeleton(workload), view, heading=_name(file))


def stages_of(file: PlanFile) -> Picture:
    """The DAG of stages. Raises InvalidPlan if the plan cannot be simulated, UnsupportedProblem if it has too many."""
    view = view_of(file.problem, file.plan, file.result)
    picture = stages_picture(view, heading=_name(file))
    if picture is None:
        raise UnsupportedProblem(
            f"{len(file.plan.stages):,} stages cannot be read in a drawing (at most {MAX_STAGES}); take the schedule"
        )
    return picture


def report_of(file: PlanFile) -> str:
    """A review with pictures, as a page of its own."""
    looked = review(file.problem, file.plan, file.result)
    return report_page(looked, file.problem, file.reference, () if file.result is None else file.result.notes)


def _name(file: PlanFile) -> str:
    cluster = text.counted(device.kind for device in file.problem.cluster.devices)
    return text.short(f"{file.reference or file.problem.graph.name} on {cluster}", 110)
