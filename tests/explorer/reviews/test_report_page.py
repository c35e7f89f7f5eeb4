"""The review as a file: it needs nothing else, and nothing in it can run."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from explorer.reviews.report_page import report_page
from explorer.reviews.review import review
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Problem
from tests.explorer.view.small import chain_problem, even_plan

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


class Seen(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words += data


def evil() -> tuple[Problem, Plan]:
    """A chain whose graph, modules, operators, devices, kinds and links are all called something with markup in it."""
    problem = chain_problem()
    graph = problem.graph
    operators = tuple(
        replace(operator, name=f"{operator.name}{EVIL}", op_type=EVIL, module_path=f"{EVIL}.{operator.module_path}")
        for operator in graph.operators
    )
    devices = tuple(replace(device, name=f"{device.name}{EVIL}") for device in problem.cluster.devices)
    links = tuple(replace(link, resource=f"{EVIL}{i}") for i, link in enumerate(problem.cluster.links))
    named = replace(
        problem,
        graph=OpGraph(operators, graph.tensors, graph.samples, EVIL),
        cluster=Cluster(devices, links),
        costs_from=EVIL,
    )
    return named, even_plan(problem)


def test_the_page_holds_pictures_tables_and_every_line() -> None:
    problem = chain_problem()
    findings = review(problem, even_plan(problem))
    page = report_page(findings, problem, "chain", ["a note of the search"])
    seen = Seen(page)
    assert seen.tags.count("svg") == 3
    for heading in ("Review", "Schedule", "Devices", "Stages", "Operators by device", "Largest transfers", "Notes"):
        assert f"<h2>{heading}</h2>" in page
    for line in findings.lines:
        assert line.reason in seen.words
    assert "a note of the search" in seen.words
    assert page == report_page(findings, problem, "chain", ["a note of the search"]), "no date, nothing at random"


def test_it_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    problem, plan = evil()
    page = report_page(review(problem, plan), problem, EVIL, [EVIL])
    seen = Seen(page)
    assert not {"script", "img", "link", "iframe", "object", "embed", "form", "base"} & set(seen.tags)
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in ("src", "href", "xlink:href")]
    assert not re.search(r"@import|url\((?!#)", page)
    assert "default-src 'none'" in page
    assert "<script>alert(1)</script>" in seen.words, "the name is there, as text"


def test_it_follows_the_theme_of_the_reader() -> None:
    problem = chain_problem()
    page = report_page(review(problem, even_plan(problem)), problem, "chain")
    declared = set(re.findall(r"--([a-z0-9-]+):#", page.partition("prefers-color-scheme: dark")[2].partition("}}")[0]))
    assert declared >= set(re.findall(r"var\(--([a-z0-9-]+)\)", page))


def test_a_plan_that_cannot_be_drawn_has_a_page_all_the_same() -> None:
    problem = chain_problem()
    plan = even_plan(problem)
    stage = replace(plan.stages[0], operators=plan.stages[0].operators[1:])
    broken = replace(plan, stages=(stage, *plan.stages[1:]))
    page = report_page(review(problem, broken), problem, "chain")
    assert "svg" not in Seen(page).tags
    assert "The plan cannot be used as it is" in page
