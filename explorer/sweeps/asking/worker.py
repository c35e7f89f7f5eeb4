"""The child side of the pool: a process that keeps solvers, kernels and graphs warm, and answers one question at a
time."""

from __future__ import annotations

from solvers.programs.processes.entry import Channel


def main(channel: Channel) -> None:
    """Answer questions: `Channel.serve`. A payload is (key, graph or "", question, start): keys are of graphs, whose
    text comes along until it was sent once. Out: ("compiling", "", kernel, seconds) and ("event", position, answer)."""
    from explorer.sweeps.asking.solving import TextSolver
    from solvers.kernels.compiling import Compiling

    solver = TextSolver()

    def work(position: int, payload: tuple[str, str, str, str]) -> bool:
        key, graph, question, start = payload
        if graph:
            solver.take(key, graph)
        channel.send("event", position, solver.answer(key, question, start, channel.should_stop(position)))
        return True

    with Compiling(tell=lambda kernel, seconds: channel.send("compiling", "", kernel, seconds)):
        channel.serve(work)
