"""Whose turn it is, without any process."""

from __future__ import annotations

import itertools
from collections import Counter

from explorer.jobs.workers.job import Job, JobWorker
from explorer.jobs.workers.scheduler import MOST_PASSED, FairQueue, Scheduler
from tests.explorer.jobs.workers.fakes import Request


def waiting(*names):
    """ "a1": the first job of visitor a; "A1": one that takes long; "a1?": a brief one."""
    queue = FairQueue()
    for name in names:
        queue.add(job(name))
    return queue


def job(name, model=""):
    kind = "review" if name.endswith("?") else "compare" if name[0].isupper() else "solve"
    return Job(name, kind, Request(name, model=model), print, name[0].lower())


def names(jobs):
    return [one.identifier for one in jobs]


def worker(at=None, brief=False, ready=True, models=()):
    return JobWorker(ready, at, brief, set(models))


def test_brief_jobs_go_first_then_first_plans_then_what_takes_long():
    assert names(waiting("A1", "b1", "c1?", "b2?").order({})) == ["c1?", "b2?", "b1", "A1"]


def test_visitors_take_turns_and_each_in_their_own_order():
    assert names(waiting("a1", "a2", "a3", "b1", "b2", "c1").order({})) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_who_has_a_search_at_work_is_served_after_those_who_have_none():
    assert names(waiting("a1", "b1").order(Counter(a=1))) == ["b1", "a1"]


def test_who_was_served_longest_ago_is_served_next():
    queue = waiting("a1", "b1", "a2", "b2")
    taken = []
    while queue:
        one = queue.order({})[0]
        queue.take(one)
        taken.append(one.identifier)
        if one.identifier == "b1":
            queue.add(job("c1"))
    assert taken == ["a1", "b1", "c1", "a2", "b2"]


def test_what_takes_long_gets_its_turn_after_many_first_plans():
    queue = waiting("Z1")
    for number in itertools.count(1):
        queue.add(job(f"a{number}"))
        one = queue.order({})[0]
        queue.take(one)
        if one.identifier == "Z1":
            break
    assert number == MOST_PASSED + 1


def test_a_flood_of_one_visitor_costs_another_one_place():
    queue = waiting(*(f"f{number}" for number in range(500)), "a1")
    assert names(queue.order(Counter(f=1)))[0] == "a1"


def test_the_order_shown_is_the_order_taken():
    queue = waiting("a1", "B1", "b2?", "a2", "c1", "b3", "A3", "c2")
    messages, taken = names(queue.order({})), []
    while queue:
        one = queue.order(Counter(name[0].lower() for name in taken if name[-1] != "?"))[0]
        queue.take(one)
        taken.append(one.identifier)
    assert taken == messages


def scheduler(*workers, most=2, interactive=False, jobs=()):
    return Scheduler(most, interactive, list(workers), waiting(*jobs))


def test_a_second_worker_is_not_started_before_the_first_can_begin():
    assert scheduler(jobs=["a1"]).lacks() == "searching"
    assert scheduler(worker(ready=False), jobs=["a1", "b1"]).lacks() == ""
    assert scheduler(worker(job("c1")), jobs=["a1", "b1"]).lacks() == "searching"


def test_no_worker_is_started_where_one_is_about_to_be_free():
    ends = job("a1")
    ends.cancelled = True
    assert scheduler(worker(ends), jobs=["a2"]).lacks() == ""
    assert scheduler(worker(ends), jobs=["a2", "b1"]).lacks() == "searching"


def test_no_more_workers_than_were_requested():
    assert scheduler(worker(job("a1")), worker(job("b1")), jobs=["c1"]).lacks() == ""
    assert scheduler(worker(job("a1")), worker(job("b1")), jobs=["c1?"]).lacks() == ""
    assert scheduler(worker(job("a1")), worker(job("b1")), interactive=True, jobs=["c1?"]).lacks() == "brief"
    assert (
        scheduler(
            worker(job("a1")), worker(job("b1")), worker(job("d1?"), brief=True), interactive=True, jobs=["c1?"]
        ).lacks()
        == ""
    )


def test_no_worker_is_started_for_what_would_leave_none_to_first_plans():
    assert scheduler(worker(job("A1")), jobs=["B1"]).lacks() == ""
    assert scheduler(worker(job("A1")), most=3, jobs=["B1"]).lacks() == "searching"


def test_one_worker_alone_does_what_takes_long_too():
    one = scheduler(worker(), most=1, jobs=["A1"])
    assert one.next()[0].identifier == "A1"


def test_a_worker_that_has_the_model_is_preferred():
    one, other = worker(), worker(models=["big"])
    chosen = Scheduler(2, False, [one, other], FairQueue())
    chosen.queue.add(job("a1", model="big"))
    assert chosen.next()[1] is other


def test_places_count_what_is_done_where_everybody_is_busy():
    assert [place for _, place in scheduler(worker(job("a1")), most=1, jobs=["b1", "c1"]).places()] == [1, 2]
    assert [place for _, place in scheduler(worker(ready=False), most=1, jobs=["b1", "c1"]).places()] == [0, 1]
    assert [place for _, place in scheduler(worker(job("A1")), worker(), jobs=["B1"]).places()] == [1]
