"""Search for the answers that ship, and write them: ``python -m explorer.jobs.shipping``.

The search goes on to its end, however long: what ships is not what one machine happened to find in some time.
"""

from __future__ import annotations

from datetime import UTC, datetime

from explorer.library import shipped
from explorer.library.question_key import SearchQuestion
from explorer.question.accelerators import DEFAULT_KIND
from explorer.question.loading import load
from explorer.question.planner_choice import choose_planner
from explorer.question.problems import make_problem
from explorer.runner.scripts.with_engine import runtime_estimator
from explorer.view.session import Choices, Session, parse_query, with_first_question

MODELS = ("gpt",)
"""Models whose first question on the page is answered: that of `make app`."""
LONG_S = 3600.0
"""A guard: no search takes as long."""


def first_question(model: str) -> SearchQuestion:
    """What the page asks about a demo before anything is changed."""
    return question_of_session(with_first_question(parse_query("", Choices((model,), ("auto",), (DEFAULT_KIND,)))))


def question_of_session(session: Session) -> SearchQuestion:
    """What a worker searches for a page."""
    workload = load(session.model, training=session.settings.training, dtype=session.settings.dtype)
    problem = make_problem(workload, session.settings)
    return SearchQuestion(
        problem,
        choose_planner(session.planner),
        effort=session.effort,
        time_limit_s=session.time_limit_s,
        seed=session.seed,
        second=runtime_estimator(problem),
    )


def main() -> None:
    from solvers.planners.solve import solve

    written = []
    for model in MODELS:
        question = first_question(model)
        result = solve(question.problem, question.planner, **(question.terms | {"time_limit_s": LONG_S}))
        written.append(shipped.store(question, result, model, datetime.now(UTC).date().isoformat()))
        print(f"{model}: {result}, {written[-1].stat().st_size:,} bytes", flush=True)
    for old in set(shipped.FOLDER.glob("*.json.gz")) - set(written):
        old.unlink()


if __name__ == "__main__":
    main()
