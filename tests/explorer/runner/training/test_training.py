"""Trainings from a plan: on two processes and on one the same curve, also where the plan changes in the middle."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from solvers.plan.plan import Plan
from solvers.problem.problem import Contiguity, Pipeline, Problem
from tests.explorer.runner.launching import launched
from tests.explorer.runner.plans import placed, problem_of, random_places, text
from tests.explorer.runner.random_models import ODD
from tests.explorer.runner.training.models import SAMPLES
from tests.explorer.runner.training.random_trainings import MORE, NAMES

HERE = "tests.explorer.runner.training.models"
EXACT = 1e-5
"""Largest relative difference of losses, norms and sums of weights."""
ROUGH = 1e-3
"""The same of entries of the random models, of which some have products in bfloat16 and some gradients of rounding."""


def planned(model: str, devices: int, places: list[Any], recompute: bool = False, **settings: Any) -> str:
    name = f"{HERE}:{model}"
    given = {"mini_batch": SAMPLES, "micro_batches": 2, "recompute": recompute, **settings}
    problem: Problem = problem_of(name, devices=devices, **given)
    count = sum(o.forward_of is None for o in problem.graph.operators)
    assert len(places) in (1, count), [o.name for o in problem.graph.operators[:count]]
    plan: Plan = placed(problem, places * (count // len(places)), 2)
    if recompute:
        plan = replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages))
    return text(problem, plan, name)


def halves(model: str, devices: int = 2, **settings: Any) -> str:
    """The first operators on one device, the others on the other."""
    problem = problem_of(f"{HERE}:{model}", devices=devices)
    count = sum(o.forward_of is None for o in problem.graph.operators)
    return planned(model, devices, [int(k >= count // 2) for k in range(count)], **settings)


def odd(name: str) -> str:
    """A random model on two devices: scattered, with gradients of parameters apart; in two halves that run again; or
    on both, as replicas, every other time with ZeRO-1."""
    number = (NAMES + MORE).index(name)
    reference, how = f"tests.explorer.runner.random_models:{name}", number % 3
    settings: dict[str, Any] = {"devices": 2, "mini_batch": SAMPLES, "micro_batches": 2, "max_replicas": 2}
    settings |= {"contiguity": Contiguity.NONE, "recompute": how == 1, "zero": int(how == 2 and number % 2 == 1)}
    settings |= {"pipeline": Pipeline.ZERO_BUBBLE if how == 0 else Pipeline.ONE_F_ONE_B}
    problem = problem_of(reference, **settings)
    places: list[Any] = random_places(problem, 2, random.Random(number))
    if how:
        places = [(0, 1) if how == 2 else (int(2 * k >= len(places)),) for k in range(len(places))]
    together: dict[str, Any] = {}
    for k, operator in enumerate(problem.graph.operators[: len(places)]):
        free = operator.op_type == "aten.batch_norm" and not operator.param_bytes
        if group := operator.colocation or "free" * free:  # calls of the norm without parameters, too
            places[k] = together.setdefault(group, places[k])
    plan = placed(problem, places, 2)
    if how == 1:
        plan = replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages))
    return text(problem, plan, reference)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of all trainings, in one launch."""
    folder = tmp_path_factory.mktemp("trainings")
    plans = {
        "one": planned("scores", 1, [0]),
        "two": planned("scores", 2, [0, 1, 1, 1, 0], pipeline=Pipeline.ZERO_BUBBLE),
        "two replicas": planned("scores", 2, [(0, 1)]),
        "two with ZeRO-1": planned("scores", 2, [(0, 1)], max_replicas=2, zero=1),
        "two on hosts": planned("scores", 2, [0, 1, 1, 1, 0], offload_optimizer=True, host_link="10GB/s"),
        "one noisy": planned("noisy", 1, [0]),
        "two noisy": halves("noisy"),
        "two noisy recomputed": halves("noisy", recompute=True),
        "one halved": planned("halved", 1, [0]),
        "two halved": halves("halved", pipeline=Pipeline.ZERO_BUBBLE),
        "two halved recomputed": halves("halved", recompute=True),
        **{name: odd(name) for name in NAMES},
    }
    for name in ("two", "two halved"):  # gradients of parameters wait
        assert re.search(r'"\d+W\d+"', plans[name])
    for name, plan in plans.items():
        (folder / f"{name}.json").write_text(plan)
    return launch(folder)


def launch(folder: Path, *names: str) -> dict[str, Any]:
    """names: of random models; else all other trainings, and some random ones."""
    return launched("tests.explorer.runner.training.trainings", folder, *names)


def curve(results: dict[str, Any], name: str) -> list[list[float]]:
    """(number, loss, norm, learning rate) of every step, on which the ranks agree to the last bit."""
    first, *others = [result["curve"] for result in results[name]]
    assert all(other == first for other in others)
    return [[number or 0.0 for number in step] for step in first]


def weights(results: dict[str, Any], name: str) -> dict[str, float]:
    """Sums of the tensors of the whole state dict, which rank 0 alone has."""
    first, *others = [result["weights"] for result in results[name]]
    assert not any(others)
    return first


def close(value: Any, expected: Any) -> bool:
    return bool(value == pytest.approx(expected, rel=EXACT, abs=1e-6))


def same(rows: list[list[float]], expected: list[list[float]]) -> bool:
    return len(rows) == len(expected) > 0 and all(map(close, rows, expected))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["full on one", "full on two", "replicas", "ZeRO-1", "states on hosts"])
def test_trains_as_a_plain_loop_does_with_clip_schedule_and_accumulation(name: str, results: dict[str, Any]) -> None:
    """Stages that are not contiguous, with a tied table and split backwards; replicas; and one process."""
    (plain,) = results["alone"]
    assert same(curve(results, name), plain["curve"])
    assert close(weights(results, name), plain["weights"])
    assert list(weights(results, name)) == plain["keys"]
    assert not close(plain["weights"], plain["start"])


@pytest.mark.slow
def test_the_clip_and_the_schedule_do_something(results: dict[str, Any]) -> None:
    steps = curve(results, "full on two")
    assert all(norm > 0.4 for _, _, norm, _ in steps)
    assert [rate for *_, rate in steps] == pytest.approx([0.005, 0.01, 0.015, 0.02, 0.02, 0.01])


def test_a_rank_holds_the_parameters_of_its_own_operators_only(results: dict[str, Any]) -> None:
    (whole,) = [result["held"] for result in results["full on one"]]
    one, other = [result["held"] for result in results["full on two"]]
    assert sorted(one) == ["table.weight"]
    assert {**one, **other} == whole
    assert not one.keys() & other.keys()


@pytest.mark.parametrize("name", ["noisy on two", "noisy, recomputed"])
def test_dropout_is_the_same_wherever_an_operator_runs_and_when(name: str, results: dict[str, Any]) -> None:
    """Statistics of the batch, too, are counted once."""
    assert same(curve(results, name), curve(results, "noisy on one"))
    assert close(weights(results, name), weights(results, "noisy on one"))
    assert all(result["generator"] for result in results[name])


def test_dropout_differs_from_mini_batch_to_mini_batch(results: dict[str, Any]) -> None:
    """Without training, since the learning rate is nearly none, and on the same samples."""
    losses = [loss for _, loss, *_ in curve(results, "noisy, idle")]
    assert len(set(losses)) == len(losses) > 1


@pytest.mark.parametrize("name", ["halved on one", "halved on two", "halved, recomputed"])
def test_a_model_under_autocast_trains_as_a_plain_loop_does(name: str, results: dict[str, Any]) -> None:
    (plain,) = results["halved alone"]
    assert same(curve(results, name), [[number or 0.0 for number in step] for step in plain["curve"]])
    assert close(weights(results, name), plain["weights"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from one", "to two"), ("from two", "to one"), ("from two", "to replicas"),
        ("from replicas", "replicas to one"), ("from two", "to hosts"), ("from hosts", "hosts to one"),
        ("from two", "to ZeRO-1"), ("from ZeRO-1", "ZeRO-1 to one"), ("from ZeRO-1", "to replicas"),
    ],
)  # fmt: skip
def test_the_plan_changes_in_the_middle_and_the_curve_does_not(
    first: str, second: str, results: dict[str, Any]
) -> None:
    (plain,) = results["alone"]
    assert same(curve(results, first) + curve(results, second), plain["curve"])


def test_a_checkpoint_that_could_not_be_written_leaves_nothing_and_the_training_goes_on(
    results: dict[str, Any],
) -> None:
    for result in results["a full disk"]:
        assert re.search(
            r"full: file too large; nothing of it was saved, and what was saved before is", result["error"]
        )
        assert result["left"] == []
        assert result["whole"] == ["full"]
    assert same(curve(results, "a full disk"), curve(results, "to two"))


def test_what_gives_mini_batches_gets_where_to_go_on(results: dict[str, Any]) -> None:
    assert [result["asked"] for result in results["called"]] == [[6], [6]]
    assert same(curve(results, "called"), curve(results, "to two"))


def test_a_module_gives_its_own_values_and_stays_as_it_is(results: dict[str, Any]) -> None:
    assert all(result["same"] and result["untouched"] for result in results["a module"])


@pytest.mark.parametrize("name", NAMES)
def test_a_random_model_trains_as_it_does_in_a_plain_loop(name: str, results: dict[str, Any]) -> None:
    check_random(results[name][0])


@pytest.mark.slow
def test_more_random_models_train_as_they_do_in_a_plain_loop(tmp_path: Path) -> None:
    for name in MORE:
        (tmp_path / f"{name}.json").write_text(odd(name))
    for errors, _ in launch(tmp_path, *MORE).values():
        check_random(errors)


def check_random(errors: dict[str, Any]) -> None:
    """Outputs, every gradient and which of them are None, buffers and the state dict."""
    assert errors["loss"] <= EXACT
    assert max(errors["gradients"].values()) <= EXACT, errors["gradients"]
    assert errors["replicas agree"]
    assert errors["counted"] == errors["true counts"]
    assert max(errors["state"].values()) <= ROUGH, errors["state"]


def test_random_models_meet_what_they_are_for(results: dict[str, Any]) -> None:
    """Shared norms of the batch that another rank than the first updates, dropout in autocast and without, parameters
    that no loss reaches, with replicas and without."""
    each = [results[name][0] for name in NAMES]
    assert set(ODD) <= {kind for errors in each for kind in errors["kinds"]}
    assert all(any(errors["none"] for errors in each[how::3]) for how in range(3))
    assert any(key.startswith("shared") for errors in each for key in errors["statistics of rank 1"])


REFUSED = {
    "another model": "other: the plan is of another version of the model (operator body.0/linear has other sizes)",
    "another batch": "batches: input 0 must be [8, 5] int64 for the plan's mini-batch of 8 samples, found [6, 5] int64",
    "another context": "input 0 must be [8, 5] int64 for the plan's mini-batch of 8 samples, found [8, 4] int64",
    "no targets": "batches: with loss= a mini-batch is (inputs, targets), found Tensor",
    "no loss": "must return one scalar, its loss; found outputs [4, 5, 11]; give loss=",
    "no number": "loss=: expected one number that depends on the output, found a tensor [4, 5, 11]",
    "another optimizer": "SGD keeps 0 states as large as the parameters, the plan counts 2 (adam); plan with"
    " --optimizer sgd",
    "no optimizer of entries": "ZeRO-1 has replicas update a part of the entries each, which is known to be right of"
    " SGD, Adam, AdamW, found RAdam; plan with --zero 0",
    "another number of ranks": "the plan uses 1 device, found 2 processes; start it with torchrun --nproc-per-node 1",
    "autocast": "put torch.autocast into the model's forward and plan it again",
    "another checkpoint": "it is of another model: ",
    "no schedule": "it is of a schedule, and here is no schedule",
    "no checkpoint": "training.json: no such file or directory",
    "a spoiled checkpoint": "a checkpoint's list of tensors names posix.system, which describes none",
    "used": "it is there already; name a new folder",
    "other data": "the ranks differ in the first mini-batch",
    "ends on one": "batches: they end after 2 mini-batches on one rank and go on, on another",
    "fails on one": "batches, number 2: ValueError: a row is missing",
    "changes its shape": "input 0 must be [8, 5] int64 for the plan's mini-batch of 8 samples, found [3, 5] int64",
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_on_every_rank_in_one_line(name: str, results: dict[str, Any]) -> None:
    one, other = [result["error"] for result in results[name]]
    assert one == other
    assert REFUSED[name] in one
    assert "\n" not in one
