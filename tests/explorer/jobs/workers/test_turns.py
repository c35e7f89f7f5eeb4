"""Whose turn it is, without any process."""

from __future__ import annotations

import itertools
from collections import Counter

from explorer.jobs.workers.crew import Crew
from explorer.jobs.workers.job import Hand, Job
from explorer.jobs.workers.turns import MOST_PASSED, Turns
from tests.explorer.jobs.workers.standins import Ask


def waiting(*names):
    """ "a1": the first job of visitor a; "A1": one that takes long; "a1?": a brief one."""
    turns = Turns()
    for name in names:
        turns.add(job(name))
    return turns


def job(name, model=""):
    kind = "review" if name.endswith("?") else "compare" if name[0].isupper() else "solve"
    return Job(name, kind, Ask(name, model=model), print, name[0].lower())


def names(jobs):
    return [one.identifier for one in jobs]


def hand(at=None, brief=False, ready=True, models=()):
    return Hand(None, None, brief, ready, at, set(models))


def test_brief_jobs_go_first_then_first_plans_then_what_takes_long():
    assert names(waiting("A1", "b1", "c1?", "b2?").order({})) == ["c1?", "b2?", "b1", "A1"]


def test_visitors_take_turns_and_each_in_their_own_order():
    assert names(waiting("a1", "a2", "a3", "b1", "b2", "c1").order({})) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_who_has_a_search_at_work_is_served_after_those_who_have_none():
    assert names(waiting("a1", "b1").order(Counter(a=1))) == ["b1", "a1"]


def test_who_was_served_longest_ago_is_served_next():
    turns = waiting("a1", "b1", "a2", "b2")
    taken = []
    while turns:
        one = turns.order({})[0]
        turns.take(one)
        taken.append(one.identifier)
        if one.identifier == "b1":
            turns.add(job("c1"))
    assert taken == ["a1", "b1", "c1", "a2", "b2"]


def test_what_takes_long_gets_its_turn_after_many_first_plans():
    turns = waiting("Z1")
    for number in itertools.count(1):
        turns.add(job(f"a{number}"))
        one = turns.order({})[0]
        turns.take(one)
        if one.identifier == "Z1":
            break
    assert number == MOST_PASSED + 1


def test_a_flood_of_one_visitor_costs_another_one_place():
    turns = waiting(*(f"f{number}" for number in range(500)), "a1")
    assert names(turns.order(Counter(f=1)))[0] == "a1"


def test_the_order_told_is_the_order_taken():
    turns = waiting("a1", "B1", "b2?", "a2", "c1", "b3", "A3", "c2")
    told, taken = names(turns.order({})), []
    while turns:
        one = turns.order(Counter(name[0].lower() for name in taken if name[-1] != "?"))[0]
        turns.take(one)
        taken.append(one.identifier)
    assert taken == told


def crew(*hands, most=2, desk=False, jobs=()):
    return Crew(most, desk, list(hands), waiting(*jobs))


def test_a_second_worker_is_not_started_before_the_first_can_begin():
    assert crew(jobs=["a1"]).lacks() == "searching"
    assert crew(hand(ready=False), jobs=["a1", "b1"]).lacks() == ""
    assert crew(hand(job("c1")), jobs=["a1", "b1"]).lacks() == "searching"


def test_no_worker_is_started_where_one_is_about_to_be_free():
    ends = job("a1")
    ends.cancelled = True
    assert crew(hand(ends), jobs=["a2"]).lacks() == ""
    assert crew(hand(ends), jobs=["a2", "b1"]).lacks() == "searching"


def test_no_more_workers_than_were_asked_for():
    assert crew(hand(job("a1")), hand(job("b1")), jobs=["c1"]).lacks() == ""
    assert crew(hand(job("a1")), hand(job("b1")), jobs=["c1?"]).lacks() == ""
    assert crew(hand(job("a1")), hand(job("b1")), desk=True, jobs=["c1?"]).lacks() == "brief"
    assert crew(hand(job("a1")), hand(job("b1")), hand(job("d1?"), brief=True), desk=True, jobs=["c1?"]).lacks() == ""


def test_no_worker_is_started_for_what_would_leave_none_to_first_plans():
    assert crew(hand(job("A1")), jobs=["B1"]).lacks() == ""
    assert crew(hand(job("A1")), most=3, jobs=["B1"]).lacks() == "searching"


def test_one_worker_alone_does_what_takes_long_too():
    one = crew(hand(), most=1, jobs=["A1"])
    assert one.next()[0].identifier == "A1"


def test_a_worker_that_has_the_model_is_preferred():
    one, other = hand(), hand(models=["big"])
    found = Crew(2, False, [one, other], Turns())
    found.turns.add(job("a1", model="big"))
    assert found.next()[1] is other


def test_places_count_what_is_done_where_everybody_is_busy():
    assert [place for _, place in crew(hand(job("a1")), most=1, jobs=["b1", "c1"]).places()] == [1, 2]
    assert [place for _, place in crew(hand(ready=False), most=1, jobs=["b1", "c1"]).places()] == [0, 1]
    assert [place for _, place in crew(hand(job("A1")), hand(), jobs=["B1"]).places()] == [1]
