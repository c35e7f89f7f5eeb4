"""A plan may say in which order a link serves its messages: the link idles rather than overtakes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.lower import check_messages, lower
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Action, Message, Plan, Stage, parse_message
from solvers.problem.problem import Contiguity, Execution, Objective, Problem, Transfers
from solvers.verify import verify
from tests.instances import forward_graph
from tests.instances import problem as make
from tests.oracle.compare import disagreement
from tests.oracle.message_orders import served, with_some_order
from tests.oracle.random_plans import random_plan
from tests.oracle.well_formed import check_tasks

A, B, C = (Message(Action(stage, "F"), 1) for stage in range(3))


def three_transfers(**options: object) -> tuple[Problem, Plan]:
    """a, b, c of 1 s on device 0; then on device 1 what reads b (5 s), c (1 s) and a (1 s). a's transfer takes 4 s,
    the others 1 s."""
    graph = forward_graph([(0, 3), (1, 4), (2, 5)], 6, nbytes=1)
    options = {
        "objective": Objective.MAKESPAN, "execution": Execution.OPERATOR, "contiguity": Contiguity.NONE,
        "transfers": Transfers.LINKS, "transfer_s": (4.0, 1.0, 1.0), "mini_batch": 1,
    } | options  # fmt: skip
    problem = make(graph, [1, 1, 1, 1, 5, 1], **options)
    stages = tuple(Stage((i,), (i // 3,)) for i in range(6))
    order = tuple(tuple(Action(s, "F") for s in row) for row in ([0, 1, 2], [4, 5, 3]))
    return problem, Plan(stages, order)


@pytest.mark.parametrize("text", ["2F0>1", "0B13>0", "7U>2", "2F0>1#1", "12W3>4#20"])
def test_a_message_is_a_text_that_parses_back(text: str) -> None:
    assert str(parse_message(text)) == text


@pytest.mark.parametrize(
    "text", ["", "2F0", "2F0>", ">1", "2F>1", "2U0>1", "2S>1", "2F0>1#", "2F0>1#0", "2F0>1#1#1", "2F0>-1", "2F0>1\n",
             "2F0>" + "9" * 40, "9" * 40 + "F0>1", "2F0>1#" + "9" * 40]
)  # fmt: skip
def test_another_text_is_no_message(text: str) -> None:
    with pytest.raises(InvalidPlan):
        parse_message(text)


@pytest.mark.parametrize(
    ("messages", "starts", "makespan"),
    [
        ((), {"0F0>1": 1, "1F0>1": 5, "2F0>1": 6}, 13),  # never idles: a's long transfer is the first that is ready
        ((("0->1", (B, C, A)),), {"1F0>1": 2, "2F0>1": 3, "0F0>1": 4}, 10),
        ((("0->1", (C, B, A)),), {"2F0>1": 3, "1F0>1": 4, "0F0>1": 5}, 12),
        ((("0->1", (A, C, B)), ("1->0", ())), {"0F0>1": 1, "2F0>1": 5, "1F0>1": 6}, 14),
    ],
)
def test_a_link_serves_messages_in_the_stated_order(messages, starts, makespan) -> None:  # type: ignore[no-untyped-def]
    problem, plan = three_transfers()
    schedule = simulate(problem, replace(plan, messages=messages))
    assert schedule.makespan_s == makespan
    assert {span.action: span.start_s for span in schedule.spans if span.is_transfer} == starts


def test_the_other_schedules_follow_the_rule_of_links() -> None:
    problem, plan = three_transfers()
    ordered = replace(plan, messages=(("0->1", (C, B, A)),))
    stated, plain = evaluate(problem, ordered), evaluate(problem, plan)
    assert (stated.makespan_s, plain.makespan_s) == (12, 13)
    assert stated.iteration_s == plain.iteration_s


def there_and_back() -> tuple[Problem, Plan]:
    """a on device 0 feeds b on device 1, which feeds c on device 0; d on device 1 reads a and c."""
    graph = forward_graph([(0, 1), (1, 2), (0, 3), (2, 3)], 4, nbytes=1)
    problem = make(graph, [1.0] * 4, objective=Objective.MAKESPAN, execution=Execution.OPERATOR, mini_batch=1,
                   contiguity=Contiguity.NONE, transfers=Transfers.LINKS)  # fmt: skip
    stages = tuple(Stage((i,), (i % 2,)) for i in range(4))
    return problem, Plan(stages, ((Action(0, "F"), Action(2, "F")), (Action(1, "F"), Action(3, "F"))))


def test_a_deadlock_shows_where_devices_and_links_are_stuck() -> None:
    problem, plan = there_and_back()
    first, second = Message(Action(0, "F"), 1), Message(Action(2, "F"), 1)
    assert simulate(problem, replace(plan, messages=(("0->1", (first, second)),))).makespan_s == 7
    with pytest.raises(InvalidPlan) as caught:
        simulate(problem, replace(plan, messages=(("0->1", (second, first)),)))
    assert str(caught.value) == (
        "the order deadlocks: device 0 at 2F0 (waits for 1F0>0); device 1 at 1F0 (waits for 0F0>1);"
        " link 0->1 at 2F0>1 (waits for 2F0)"
    )


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ((("0->1", (A, B)),), "messages['0->1']: 2F0>1 is missing: it crosses this link, as 0F0>1, 1F0>1, 2F0>1 do;"),
        ((("0->1", (A, B, C, A)),), "messages['0->1'][3]: 0F0>1 is there twice (first at messages['0->1'][0]);"),
        ((("0->1", (A, B, Message(Action(3, "F"), 0), C)),), "messages['0->1'][2]: 3F0>0 does not cross this link;"),
        ((("0->1", (A, B, replace(C, number=1))),), "messages['0->1'][2]: 2F0>1#1 does not cross this link;"),
        ((("1->0", (A,)),), "messages['1->0'][0]: 0F0>1 does not cross this link; expected one of none;"),
        ((("0->2", (A,)),), "messages['0->2']: there is no such link; expected one of 0->1, 1->0;"),
        ((("0->1", (A, B, C)), ("0->1", (A, B, C))), "messages['0->1']: is there twice;"),
    ],
)
def test_an_order_that_is_not_whole_is_refused(messages, message) -> None:  # type: ignore[no-untyped-def]
    problem, plan = three_transfers()
    for look in (simulate, check_messages):
        with pytest.raises(InvalidPlan) as caught:
            look(problem, replace(plan, messages=messages))
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("transfers", [Transfers.LANE, Transfers.DUPLEX, Transfers.BLOCKING])
def test_only_links_have_an_order(transfers: Transfers) -> None:
    problem, plan = three_transfers(transfers=transfers)
    with pytest.raises(InvalidPlan, match="messages: their order is stated, but the transfer model is"):
        simulate(problem, replace(plan, messages=(("0->1", (A, B, C)),)))


SEEDS = 160


def random_case(seed: int) -> tuple[Problem, Plan] | None:
    """A random plan whose transfers occupy links."""
    case = random_plan(seed)
    return None if case is None else (replace(case[0], transfers=Transfers.LINKS), case[1])


@pytest.mark.parametrize("part", range(4))
def test_stated_orders_are_simulated_as_the_objects_simulate_them(part: int) -> None:
    stated, deadlocks, numbered = 0, 0, 0
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        case = random_case(seed)
        plan = None if case is None else with_some_order(random.Random(seed), *case)
        if case is None or plan is None or not plan.messages:
            continue
        stated += 1
        numbered += any(message.number for _, row in plan.messages for message in row)
        for objective in (Objective.ITERATION, Objective.MAKESPAN):
            assert not disagreement(case[0], plan, objective), seed
        check_tasks(lower(case[0], plan, case[0].objective))
        try:
            simulate(case[0], plan)
        except InvalidPlan as error:
            deadlocks += str(error).startswith("the order deadlocks: device")
    assert numbered >= 2
    assert 1 < deadlocks < stated - 5


def test_the_order_that_links_serve_by_themselves_changes_nothing_when_it_is_stated() -> None:
    compared = 0
    for seed in range(60):
        case = random_case(seed)
        if case is None:
            continue
        problem, plan = case
        try:
            plain = simulate(problem, plan)
        except InvalidPlan:
            continue
        messages = served(problem, plan)
        compared += bool(messages)
        stated = simulate(problem, replace(plan, messages=messages))
        assert stated.makespan_s == pytest.approx(plain.makespan_s, rel=1e-12), seed
    assert compared > 20


def verified(problem: Problem, plan: Plan, run_as: Plan) -> tuple[str, ...]:
    """What `verify` finds in the schedule of ``run_as``, read as that of ``plan``; nothing where it has none."""
    try:
        return verify(problem, plan, simulate(problem, run_as))
    except InvalidPlan:
        return ()


@pytest.mark.slow
def test_verify_accepts_stated_orders_that_are_kept_and_refuses_those_that_are_not() -> None:
    accepted = broken = 0
    for seed in range(400):
        case = random_case(seed)
        if case is None:
            continue
        problem, free = case
        plan = with_some_order(random.Random(seed), problem, free)
        if not plan.messages or verified(problem, free, free):
            continue
        try:
            ordered = simulate(problem, plan)
        except InvalidPlan:
            continue  # it deadlocks
        assert not verified(problem, plan, plan), seed
        accepted += 1
        if ordered.makespan_s != pytest.approx(simulate(problem, free).makespan_s):
            assert verified(problem, plan, free), seed
            assert verified(problem, free, plan), seed
            broken += 1
    assert accepted > 60
    assert broken > 5
