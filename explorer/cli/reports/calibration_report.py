"""A profile for people: what was measured, and how far to trust it."""

from __future__ import annotations

import statistics

from explorer.cli.terminal.command import print_table
from explorer.costs.profile import LinkTimes, Profile
from explorer.costs.times.from_trace import Imported
from explorer.runner.bundles.outcome import QUIET
from explorer.words import text
from solvers.problem.cluster import CPU_KIND
from solvers.problem.graph import OpGraph


def print_profile(graph: OpGraph, profile: Profile) -> None:
    """A screenful: seconds at each number of samples, how the operators add up, links, noise."""
    on = text.counted(sorted(profile.hardware), "x")
    pinned = ", pinned" if profile.pinned else ""
    phase = "training" if profile.training else "inference"
    print(f"{profile.reference}: {text.plural(len(graph), 'operator')} measured on {on}, {profile.dtype}, for {phase}")
    print(
        f"ranks      {profile.ranks} at once, {text.plural(profile.threads, 'thread')} each{pinned};"
        f" {profile.backend}, torch {profile.torch}, {profile.date}; {profile.clock}"
    )
    print()
    _print_times(graph, profile)
    print()
    updates = ", ".join(f"{name} {text.seconds(sum(each.values()))}" for name, each in profile.updates.items() if each)
    if updates:
        print(f"updates    {updates} (one step for all parameters)")
    print(f"steps      {text.seconds(profile.step_overhead_s)} beside its operators, for each forward with backward")
    _print_engine(profile)
    for link in profile.links:
        print(
            f"link       {link.src} - {link.dst}: {text.seconds(link.latency_s)} +"
            f" {text.nbytes(link.bandwidth_bytes_per_s)}/s ({_misfit(link)})"
        )
    for one in profile.collectives:
        print(
            f"collective {one.kind} of {one.members}: {text.seconds(one.latency_s)} a step +"
            f" {text.nbytes(one.bandwidth_bytes_per_s)}/s"
        )
    print(f"memory     {', '.join(text.nbytes(size) for size in sorted(set(profile.memory_bytes)))} free for each rank")
    quiet = "quiet" if profile.noise < QUIET else "not quiet: repeat it when nothing else runs"
    print(f"noise      {text.percent(profile.noise)} ({quiet})")
    for note in profile.notes:
        print(f"note       {note}")


def _print_engine(profile: Profile) -> None:
    engine = profile.engine
    if engine is None:
        print("engine     not measured (a file of before it was): runs are predicted without it; calibrate again")
        return
    costs = engine.costs
    print(
        f"engine     {text.seconds(costs.forward_s)} a forward, {text.seconds(costs.backward_s)} a backward,"
        f" {text.seconds(costs.iteration_s)} an iteration"
    )
    if costs.added_byte_s > 0:
        print(f"           {text.seconds(costs.added_byte_s * 2**20)}/MiB to add to gradients of earlier micro-batches")
    if profile.links and costs.sent_s + costs.received_s > 0:
        each_mib = text.seconds(costs.sent_byte_s * 2**20), text.seconds(costs.received_byte_s * 2**20)
        print(
            f"           a message {text.seconds(costs.sent_s)} + {each_mib[0]}/MiB to send,"
            f" {text.seconds(costs.received_s)} + {each_mib[1]}/MiB to receive"
        )
    print(
        f"           off by {text.percent(engine.residual)} over {engine.measurements} measurements of empty segments"
        f" ({engine.clock})"
    )


def print_imported(name: str, trace: Imported) -> None:
    """What a trace showed of operators, and what it did not."""
    library = trace.library
    runs = sum(time.count for time in library.times)
    print(f"{name}: {text.plural(len(library.times), 'call')} in {runs:,} runs, {library.hardware}")
    print(f"kept       {text.percent(trace.covered)} of the time of forward calls and their backward")
    if trace.left_out:
        calls = text.listing([f"{call[:60]} ({count:,})" for call, count in trace.left_out], 6)
        print(f"left out   {calls}: their work does not follow from their arguments")


def _print_times(graph: OpGraph, profile: Profile) -> None:
    rows = [["samples", "forward", "backward", "operators", "over whole", "spread", "slow-down", "of roofline"]]
    kind = _catalogued(profile)
    for at, whole in enumerate(profile.wholes):
        measured_s = [times.seconds[at] for times in profile.operators]
        # Weighted by time: an operator of a microsecond may vary as it likes.
        spread = sum(times.spread[at] * times.seconds[at] for times in profile.operators) / (sum(measured_s) or 1.0)
        estimated_s = 0.0 if kind is None else _estimated_s(graph, profile, kind, profile.samples[at])
        rows.append(
            [
                text.count(whole.samples),
                text.seconds(whole.forward_s),
                text.seconds(whole.backward_s) if profile.training else text.NOTHING,
                text.seconds(whole.operators_forward_s + whole.operators_backward_s),
                f"{whole.residual:+.1%}",
                text.percent(spread),
                text.NOTHING if whole.slowdown is None else f"{whole.slowdown:.2f} x",
                text.NOTHING if not estimated_s else f"{sum(measured_s) / estimated_s:.2f} x",
            ]
        )
    print_table(rows, right=frozenset(range(8)))
    print("operators  their sum, and how far it is over the whole graph without marks")
    print("spread     how far the median is over the lower quartile, which is what counts")
    print("slow-down  all ranks at once over one alone")
    if kind is not None:
        what = "a server's 40 cores" if kind == CPU_KIND else kind
        print(f"roofline   measured over what is estimated for {what} (`placement-explorer devices`)")


def _catalogued(profile: Profile) -> str | None:
    """The kind of the catalogue that is most like the hardware."""
    from explorer.costs.devices import DEVICES

    if profile.backend != "nccl":
        return CPU_KIND
    return next((kind for kind in DEVICES if kind.split("-")[0] in profile.hardware[0].upper()), None)


def _estimated_s(graph: OpGraph, profile: Profile, kind: str, samples: int) -> float:
    from explorer.costs.roofline import estimate

    seconds = estimate(graph, [kind]).at(kind, samples)
    index = graph.index_of()
    return sum(float(seconds[index[times.name]]) for times in profile.operators)


def _misfit(link: LinkTimes) -> str:
    """How far the line is from the measurements: the middle one of the relative errors."""
    errors = [
        abs(link.latency_s + size / link.bandwidth_bytes_per_s - seconds) / seconds
        for size, seconds in zip(link.nbytes, link.seconds, strict=True)
    ]
    return f"off by {text.percent(statistics.median(errors))} at {len(errors)} sizes to {text.nbytes(link.nbytes[-1])}"
