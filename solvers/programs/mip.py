"""Integer programs through PuLP, with HiGHS or CBC: the only file that imports PuLP.

It runs in a child process (`solvers.programs.background`, task "mip"). HiGHS reports incumbents and bounds
while it works, and takes better solutions meanwhile; CBC returns its answer at the end. What a solver
proved is read from the solver itself: PuLP calls an interrupted search "Optimal".
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from solvers.programs.integer_program import Model

Message = dict[str, Any]

SEND_EVERY_S = 0.05
"""Between two bounds, which move often; the parent looks about as often as this."""

WRONG_PRESOLVE = {"1.13.0", "1.13.1", "1.14.0"}
"""Versions of HiGHS whose presolve cuts off better solutions and calls the rest optimal. 1.14 says 15 of 2x + 3z with
x + z >= 4.5, z whole, whose optimum is 9 (ERGO-Code/HiGHS issues 3043, 3073, 3094; mended in 1.15 by 2961); 1.13 finds
a program infeasible that 1.10 to 1.12 and 1.15 solve (tests/solvers/planners/test_fitted.py). They search without it.
"""

WRITTEN = 1e-5
"""Relative error that rows may have after CBC wrote its solution with few digits and integers were rounded."""


def run(payload: Message, send: Callable[[Message], None], receive: Callable[[], list[Message]]) -> None:
    """Solve ``payload["model"]`` (see `Model.to_message`) and send what comes of it.

    payload: also solver ("highs" or "cbc"), seed, nodes (of HiGHS's tree at most; None, or left out, for all), and
    ends_at, the clock time (`time.time`) at which CBC is to end. Messages sent: {"note"} for people;
    {"values"}, a feasible solution; {"bound"}, a lower bound on the objective; last {"status"}:
    "optimal", "infeasible" or "stopped". Messages received: {"solution"}, values of all variables
    that are feasible and perhaps better than what the solver has.
    """
    import pulp

    model = Model.from_message(payload["model"])
    solver = payload["solver"]
    if solver == "highs" and not pulp.HiGHS().available():
        send({"note": "HiGHS is not installed (pip install highspy); CBC takes its place"})
        solver = "cbc"
    problem, variables = _pulp_problem(model)
    if solver == "highs":
        backend = _live_highs(model, payload["seed"], payload.get("nodes"), send, receive)
        problem.solve(backend)
    else:
        _solve_with_cbc(model, problem, variables, payload, send)


def _pulp_problem(model: Model) -> tuple[Any, list[Any]]:
    """The same as PuLP has it, and its variables. PuLP sorts them by name: the names keep the order."""
    import pulp

    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

    problem = pulp.LpProblem("placement", pulp.LpMinimize)
    variables = [
        pulp.LpVariable(f"v{i:08d}", finite(low), finite(high), pulp.LpInteger if whole else pulp.LpContinuous)
        for i, (low, high, whole) in enumerate(zip(model.lower, model.upper, model.integer, strict=True))
    ]
    problem.addVariables(variables)
    problem.setObjective(pulp.LpAffineExpression([(variables[i], c) for i, c in enumerate(model.cost) if c]))
    for members, coefficients, least, most in model.rows:
        terms = [(variables[v], c) for v, c in zip(members, coefficients, strict=True)]
        if least == most:
            senses = [(pulp.LpConstraintEQ, least)]
        else:
            senses = [(pulp.LpConstraintGE, least), (pulp.LpConstraintLE, most)]
        for sense, limit in senses:
            if math.isfinite(limit):
                problem.addConstraint(pulp.LpConstraint(pulp.LpAffineExpression(terms), sense, rhs=limit))
    return problem, variables


def _live_highs(
    model: Model, seed: int, nodes: int | None, send: Callable[[Message], None], receive: Callable[[], list[Message]]
) -> Any:
    """PuLP's HiGHS, listening to the solver while it runs."""
    import highspy
    import pulp

    kinds = highspy.cb.HighsCallbackType

    class LiveHighs(pulp.HiGHS):  # type: ignore[misc]
        sent_bound = -math.inf
        sent_at = 0.0

        def callSolver(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
            highs = lp.solverModel
            highs.setCallback(self._on_event, None)
            for kind in (
                kinds.kCallbackMipImprovingSolution,
                kinds.kCallbackMipInterrupt,
                kinds.kCallbackMipUserSolution,
            ):
                highs.startCallback(kind)
            _set_options(highs, model, nodes)
            highs.run()
            statuses = {
                highspy.HighsModelStatus.kOptimal: "optimal",
                highspy.HighsModelStatus.kInfeasible: "infeasible",
            }
            status = statuses.get(highs.getModelStatus(), "stopped")
            info = highs.getInfo()
            if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
                send({"values": list(highs.getSolution().col_value)})
            if any(model.integer):
                self._send_bound(info.mip_dual_bound)
            elif status == "optimal":
                self._send_bound(info.objective_function_value)
            send({"status": status})

        def findSolutionValues(self, lp: Any) -> tuple[int, int]:  # noqa: N802 - PuLP's name
            return pulp.LpStatusNotSolved, pulp.LpSolutionNoSolutionFound  # sent above, from the solver itself

        def _on_event(self, kind: Any, _text: str, out: Any, into: Any, _data: Any) -> None:
            if kind == kinds.kCallbackMipImprovingSolution:
                send({"values": list(out.mip_solution)})
            elif kind == kinds.kCallbackMipUserSolution:
                for message in receive():
                    if "solution" in message:
                        into.setSolution(message["solution"])
            elif time.monotonic() - self.sent_at >= SEND_EVERY_S:
                self._send_bound(out.mip_dual_bound)

        def _send_bound(self, bound: float) -> None:
            if math.isfinite(bound) and bound > self.sent_bound:
                self.sent_bound, self.sent_at = bound, time.monotonic()
                send({"bound": bound})

    # No gap is small enough to call a search finished: the parent decides what suffices.
    return LiveHighs(msg=False, gapRel=0.0, gapAbs=1e-7, random_seed=seed)


def _set_options(highs: Any, model: Model, nodes: int | None) -> None:
    """What PuLP does not pass on to HiGHS: a limit on its tree, the start, and no presolve where that is wrong."""
    import highspy

    if highs.version() in WRONG_PRESOLVE:
        highs.setOptionValue("presolve", "off")
    if nodes is not None:
        highs.setOptionValue("mip_max_nodes", nodes)
    if model.start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = model.start
        highs.setSolution(solution)


def _solve_with_cbc(
    model: Model, problem: Any, variables: Sequence[Any], payload: Message, send: Callable[[Message], None]
) -> None:
    """One call of CBC; its log says what was proved."""
    import pulp

    if model.start is not None:
        for variable, value in zip(variables, model.start, strict=True):
            variable.setInitialValue(value, check=False)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "cbc.log"
        limit_s = max(payload["ends_at"] - time.time(), 0.1)
        solver = pulp.PULP_CBC_CMD(
            msg=False,
            timeLimit=limit_s if math.isfinite(limit_s) else None,
            gapRel=0.0,
            warmStart=model.start is not None,
            logPath=str(log),
            options=[f"randomCbcSeed {payload['seed'] % 1_000_000}"],
        )
        if not solver.available():
            raise RuntimeError("neither HiGHS nor CBC is installed; pip install highspy")
        problem.solve(solver)
        text = log.read_text(errors="replace")
    values = [variable.value() for variable in variables]
    status, bound = read_cbc_log(text)
    if status != "infeasible" and None not in values and problem.sol_status in (1, 2):
        rounded = [round(v) if whole else v for v, whole in zip(values, model.integer, strict=True)]
        if model.violation(rounded) <= WRITTEN * max(1.0, abs(model.objective_at(rounded))):
            send({"values": values})
        else:
            status = "stopped"
    elif status == "optimal":
        status = "stopped"
    if math.isfinite(bound):
        send({"bound": bound})
    send({"status": status})


def read_cbc_log(text: str) -> tuple[str, float]:
    """What CBC's log says it proved: ("optimal", "infeasible" or "stopped", lower bound or -inf).

    "infeasible or unbounded" means infeasible: a model's objective is bounded.
    """
    numbers = {
        name: float(matches[-1])
        for name in ("Objective value", "Lower bound")
        if (matches := re.findall(rf"^{name}:\s*([-+.\deE]+)\s*$", text, re.MULTILINE))
    }
    if re.search(r"^Result - Optimal solution found\s*$", text, re.MULTILINE) and "Objective value" in numbers:
        return "optimal", numbers["Objective value"]
    linear = re.search(r"^Optimal - objective value ([-+.\deE]+)\s*$", text, re.MULTILINE)
    if linear is not None and "Result - " not in text:  # a program without integers
        return "optimal", float(linear[1])
    if re.search(r"^(Result - )?(Problem (is |proven )|Pre-processing says )infeasible", text, re.MULTILINE):
        return "infeasible", -math.inf
    return "stopped", numbers.get("Lower bound", -math.inf)
