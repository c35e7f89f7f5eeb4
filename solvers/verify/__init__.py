"""An independent reading of the rules: does this plan hold, and does this schedule run it as it must?

Shares the types with the rest and nothing else: the rules are stated a second time, from the samples each device
has. A mini-batch is an interval; a device that runs an operator has slices of it; a tensor goes wherever a
slice is read elsewhere. From that follow the messages, their lengths, who waits for whom, and what is held.
"""

from __future__ import annotations

from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.problem import Problem
from solvers.verify.groups import first_group, unlike_wires
from solvers.verify.hosting import copies_of
from solvers.verify.memory import memory
from solvers.verify.spans import spans_of
from solvers.verify.structure import contiguity, structure
from solvers.verify.travel.transfers import transfers_of
from solvers.verify.waiting import stated_positions, stated_turns, waiting
from solvers.verify.work.jobs import jobs_of
from solvers.verify.work.messages import messages_of

MOST = 10
"""Findings that are reported; one fault often breaks a rule at every micro-batch."""


def verify(problem: Problem, plan: Plan, schedule: Schedule) -> tuple[str, ...]:
    """Every rule that the plan or its schedule breaks, a sentence each, at most MOST; empty if both hold.

    schedule: of one unsplit pass where the problem asks for MAKESPAN, else of one iteration.
    """
    findings = structure(problem, plan)
    if findings:
        return tuple(findings[:MOST])
    return tuple([*contiguity(problem, plan), *verify_schedule(problem, plan, schedule)][:MOST])


def verify_schedule(problem: Problem, plan: Plan, schedule: Schedule) -> list[str]:
    """What is wrong with the schedule of a plan in whose structure nothing is (see `structure`)."""
    group, findings = first_group(problem, plan, schedule)
    if group is None:
        return findings
    jobs, findings = jobs_of(group.problem, group.plan)
    if jobs is None:
        return findings
    messages = messages_of(group.problem, jobs)
    transfers = transfers_of(group.problem, jobs, messages, group.rings)
    copies = copies_of(group.problem, group.plan, jobs)
    stated, findings = stated_positions(plan, transfers)
    if schedule.alike:
        findings += unlike_wires(group, transfers)
    if findings:
        return findings
    for brief_later in (True, False):
        spans, findings = spans_of(group.problem, jobs, transfers, copies, schedule, stated, brief_later=brief_later)
        if spans is None:
            return findings
        before, disorder = stated_turns(stated, transfers, spans.arrivals, schedule)
        findings += disorder
        findings += waiting(jobs, messages, transfers, copies, spans, schedule, before)
        findings += memory(group, jobs, transfers, copies, spans, schedule)
        if not findings:
            break
    return findings
