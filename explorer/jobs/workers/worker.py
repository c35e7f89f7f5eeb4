"""The child side of a job: a process that keeps solvers, kernels and traced models warm."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable

from explorer.jobs.requests import Emit, Work
from explorer.jobs.workers.specs import ORDERLY_S, WorkerSpec
from explorer.question.packing import PackedPlan
from explorer.view.events import Event
from solvers.programs.processes.entry import Channel
from solvers.programs.processes.spec import ProcessSpec


def process_spec(spec: WorkerSpec) -> ProcessSpec:
    """What a process of the workers of ``spec`` is."""
    return ProcessSpec(
        main=main,
        name="placement-worker",
        arguments=(spec,),
        trusted=True,
        memory_bytes=spec.memory_bytes,
        end_s=ORDERLY_S if spec.orderly else 0.0,
        heed_s=spec.heed_s,
    )


def main(channel: Channel, spec: WorkerSpec) -> None:
    """Do jobs, one at a time: `Channel.serve`. A payload is (kind, request, packed plans by name).

    Out, beside what `Channel.serve` sends: ("event", id, event) for every event; ("compiling", id, kernel, seconds),
    with "" while it has no job; ("held", name, packed plan) before the first event that names it.
    """
    kinds = spec.kinds()
    from explorer.jobs import held_plans
    from solvers.kernels.compiling import Compiling

    current = ""

    def on_compiling(kernel: str, seconds: float) -> None:
        channel.send("compiling", current, kernel, seconds)

    def emit(event: Event) -> None:
        for name, plan in held_plans.newly_held():
            channel.send("held", name, plan)
        channel.send("event", current, event)

    def work(identifier: str, payload: tuple[str, object, dict[str, PackedPlan]]) -> bool:
        nonlocal current
        kind, request, plans = payload
        for name, plan in plans.items():
            held_plans.take(name, plan)
        current = identifier
        enough = run(kinds[kind], request, emit, channel.should_stop(identifier), spec.memory_bytes)
        current = ""
        return enough  # if not, what it keeps is too much as well: another begins again

    with Compiling(report=on_compiling):
        prepared = spec.is_quick()
        if prepared:
            spec.prepare()
        gc.freeze()  # what lives as long as the process need not be looked through at every collection
        channel.serve(work, None if prepared else spec.prepare, spec.idle_s)


def run(work: Work, request: object, emit: Emit, should_stop: Callable[[], bool], memory_bytes: int = 0) -> bool:
    """Run one job; whatever goes wrong becomes a ``failed`` event with one line for people. Returns False if it ran out
    of memory. memory_bytes: what it may take, 0 for as much as there is."""
    from explorer.question.tracer import Stopped
    from explorer.view import events
    from explorer.words import text
    from solvers.errors import PlacementError, one_line

    try:
        work(request, emit, should_stop)
    except Stopped:
        return True  # it ends without an answer, as one that never began
    except PlacementError as error:
        emit(events.failed(str(error)))
    except MemoryError:
        has = f"the {text.nbytes(memory_bytes)} that a worker may take" if memory_bytes else "this machine's memory"
        emit(events.failed(f"this needs more than {has}: fewer micro-batches, devices or operators need less"))
        return False
    except Exception as error:
        traceback.print_exc()
        message = f"internal error ({type(error).__name__}: {error}); the log has the details"
        emit(events.failed(one_line(message)))
    return True
