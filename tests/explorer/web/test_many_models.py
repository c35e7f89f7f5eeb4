"""Pages that share a server: whatever others ask meanwhile, a plan is laid over the graph that it was made for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.costs.regions import Recompute
from explorer.jobs.read_kind import read_job
from explorer.jobs.requests import ReadRequest
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import MemoryModel, Settings
from explorer.view import events
from explorer.view.graph.skeleton import skeleton, structure_hash
from explorer.view.session import Choices
from explorer.web.handlers.opening import take, use
from explorer.web.handlers.searching import GONE
from explorer.web.state.answers import Answers
from explorer.web.state.server import REMEMBERED
from explorer.web.state.shelf import Shelf, StoredFile
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.plan.result import Result, Status, StopReason
from solvers.problem.problem import Objective
from tests.explorer.view.small import chain, chain_problem, even_plan
from tests.explorer.web.pages import OpenPage

SIZES = {f"chain-{blocks}": blocks for blocks in range(1, REMEMBERED + 5)}
"""Blocks of each model."""


def answer(blocks):
    problem = chain_problem(blocks=blocks)
    plan = even_plan(problem)
    return events.result(Result(problem, plan, Status.OPTIMAL, StopReason.FINISHED, 1.0, 1.0, 0.1, "auto"))


def opened(blocks):
    drawn = skeleton(Workload(chain(blocks), "graph.json"))
    return events.opened("model", "graph.json", "a graph", drawn=drawn)


class Worker:
    """Answers questions, the oldest first, when `work` is called. confused: blocks of what it plans in place of what is
    asked."""

    def __init__(self):
        self.waiting, self.confused = [], []

    def start(self, request, on_event, visitor=""):
        job = f"job{id(on_event)}"
        self.waiting.append((job, request, on_event))
        return job

    def cancel(self, job):
        self.waiting = [one for one in self.waiting if one[0] != job]

    def work(self):
        while self.waiting:
            _, request, on_event = self.waiting.pop(0)
            blocks = SIZES[request.model]
            on_event(events.model(Workload(chain(blocks), request.model)))
            on_event(answer(self.confused.pop() if self.confused else blocks))


class Room:
    """Pages of one server."""

    def __init__(self):
        self.worker, self.skeletons, self.answers = Worker(), {}, Answers()

    def page(self, shelf=None):
        choices = Choices(tuple(SIZES), ("auto",), ("toy",))
        return OpenPage(self.worker, choices, skeletons=self.skeletons, shelf=shelf, answers=self.answers)


def solve(page, blocks, **session):
    page.receive({"type": "solve", "session": {"model": f"chain-{blocks}"} | session})


def displaced(room, page):
    """A page whose question about the second model waits while others ask about more models than are shared."""
    others = room.page()
    for blocks in (1, 2, 1):
        solve(page, blocks)
        room.worker.work()
    solve(page, 2, devices=3)
    waiting = room.worker.waiting.pop()
    for blocks in range(3, REMEMBERED + 5):
        solve(others, blocks)
        room.worker.work()
    room.worker.waiting.append(waiting)
    room.worker.work()


def drawn(page):
    """Of every plan that was sent, the graph below it and its own."""
    below, pictures = None, []
    for message in page.sent:
        if message["type"] == "graph":
            below = message["of"]
        elif message["type"] == "plan":
            pictures.append((below, message["of"]))
    return pictures


@pytest.fixture
def room():
    return Room()


def test_a_graph_that_others_displaced_while_a_question_waited_is_drawn_again(room):
    page = room.page()
    displaced(room, page)
    assert (len(page.skeleton["names"]), len(page.plan["placement"])) == (48, 48)
    assert all(below == own for below, own in drawn(page))


def test_an_answer_from_before_comes_with_the_graph_that_was_planned(room):
    displaced(room, room.page())
    late = room.page()
    solve(late, 1, devices=4)
    room.worker.work()
    solve(late, 2, devices=3)
    assert not room.worker.waiting
    assert (len(late.skeleton["names"]), len(late.plan["placement"])) == (48, 48)
    assert late.status["more"].endswith("cached")


def test_a_plan_of_another_graph_is_reported_and_requested_again_and_neither_drawn_nor_cached(room):
    page, late = room.page(), room.page()
    room.worker.confused = [3]
    solve(page, 1)
    room.worker.work()
    shown = [message["children"][0].children for message in page.sent if message["type"] == "banner"]
    assert shown == ["The question is asked again."]
    assert len(page.plan["placement"]) == len(page.skeleton["names"]) == 24
    solve(late, 1)
    assert all(below == own for one in (page, late) for below, own in drawn(one))
    assert late.plan["placement"] == page.plan["placement"]


def test_a_question_that_twice_brings_a_plan_of_another_graph_fails_in_a_line(room):
    page = room.page()
    room.worker.confused = [3, 3]
    solve(page, 1)
    room.worker.work()
    assert (page.status["state"], page.plan, drawn(page)) == ("failed", None, [])


def test_an_opened_model_ends_the_search_for_another(room):
    page = room.page()
    solve(page, 1)
    use(page.state, StoredFile("file-1", "graph.json", "graph.json", 0), opened(2))
    room.worker.work()
    assert (page.skeleton["graph"], page.plan, page.status["state"]) == (opened(2)["skeleton"]["graph"], None, "none")


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(in_sequence=True),
        Settings(together=(("blocks.0.attn", "blocks.1.attn"),)),
        Settings(recompute=Recompute.OPERATORS),
        Settings(devices=4, zero=3, max_replicas=2),
        Settings(objective=Objective.MAKESPAN, memory_model=MemoryModel.STATIC),
    ],
)
def test_a_question_keeps_the_hash_of_its_models_graph(settings):
    workload = load("gpt-small", training=True)
    assert structure_hash(make_problem(workload, settings).graph) == structure_hash(workload.graph)


def test_graphs_with_other_operators_or_other_flows_have_other_hashes():
    graph = chain(1)
    renamed = replace(graph, operators=(replace(graph.operators[0], name="x"), *graph.operators[1:]))
    rewired = replace(graph, tensors=(replace(graph.tensors[0], consumers=(1, 2)), *graph.tensors[1:]))
    assert len({structure_hash(one) for one in (graph, renamed, rewired)}) == 3


def test_a_file_that_made_room_for_others_meanwhile_is_reported_without_where_it_was(room, tmp_path):
    shelf = Shelf()
    page = room.page(shelf)
    part = shelf.part()
    part.write_text("{}")
    stored = shelf.store(part, "own.json")
    solve(page, 0, model=stored.identifier)
    (question,) = room.worker.waiting
    take(page.state, stored)
    read = room.worker.waiting[-1]
    shelf._drop(stored)
    for _, request, on_event in (question, read):
        path = request.model if hasattr(request, "model") else request.path
        on_event(events.failed(f"{path}: no such file or directory"))
    shown = [message["children"][1].children for message in page.sent if message["type"] == "banner"]
    assert shown == [GONE, GONE]


def test_a_file_that_is_gone_is_refused_in_a_line(tmp_path):
    with pytest.raises(InvalidProblem, match=r"^own\.json: cannot be read: no such file or directory$"):
        read_job(ReadRequest(str(tmp_path / "x.json"), "own.json"), lambda event: None, lambda: False)
