"""This machine as a target: torchrun in processes of its own, watched until the last of them has ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from explorer.runner.bundles import heartbeats
from explorer.runner.bundles.bundle import Bundle, clear_results, read_result
from explorer.runner.bundles.outcome import MAX_RANKS, Outcome, RunStatus
from explorer.runner.bundles.reproduce import RANK_MODULE
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets.failures import Exit, explain, has_failures, predicted_peak_bytes, read_failures
from explorer.runner.targets.log import RunLog, Stall, Watch, kills_since, memory_kills
from explorer.runner.targets.processes import MARK, end_marked, new_mark
from explorer.runner.targets.target import OnProgress, RunProgress
from explorer.words import text
from solvers.errors import InvalidProblem, RunError

POLL_S = 0.1
FAILURE_GRACE_S = 2.0
"""How long the launcher has to end everything once a rank has said that it failed."""
END_GRACE_S = 2.0
"""How long processes have to end by themselves before they are killed."""
MOST_AT_ONCE = 2**16
LOOPBACK = "lo"


class LocalTarget:
    """Runs plans on this machine.

    max_ranks: most processes of a run. module: what each of them runs, given the bundle. launcher: the module
    that starts them, given ranks, module and bundle; it prints how each ended (`launch`).
    """

    def __init__(
        self,
        name: str = "local",
        *,
        max_ranks: int = MAX_RANKS,
        module: str = RANK_MODULE,
        launcher: str = "explorer.runner.targets.launch",
    ) -> None:
        self.name = name
        self.max_ranks = max_ranks
        self.module = module
        self.launcher = launcher

    def run(
        self,
        plan_text: str,
        request: RunRequest,
        ranks: int,
        folder: Path,
        on_progress: OnProgress,
        should_stop: Callable[[], bool],
    ) -> Outcome:
        """See `Target.run`. Raises RunError where no process can be started."""
        if ranks > self.max_ranks:
            raise InvalidProblem(f"the plan needs {ranks} ranks; target {self.name} takes at most {self.max_ranks}")
        bundle = Bundle(folder.absolute())
        command = [sys.executable, "-m", self.launcher, str(ranks), self.module, str(bundle.folder)]
        clear_results(bundle)
        ending = _watched(command, request, bundle, ranks, on_progress, should_stop)
        outcome = _outcome(ending, bundle, plan_text)
        return replace(outcome, notes=(*outcome.notes, *core_notes(ranks, request.threads), *ending.notes))


@dataclass(frozen=True, slots=True)
class _Ending:
    """How the processes ended. stopped: why they were ended from here, or None; status: of the launcher.
    memory_kills: processes of this machine that the kernel ended meanwhile for want of memory, where it reports them.
    stall: the rank that stood still at last."""

    stopped: RunStatus | None
    status: int
    exits: tuple[Exit, ...]
    progress: RunProgress
    last: str
    took_s: float
    notes: tuple[str, ...]
    memory_kills: int | None
    stall: Stall | None


def core_notes(ranks: int, threads: int) -> tuple[str, ...]:
    """What to know of a run on this machine before believing its times."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if ranks * threads <= cores:
        return ()
    each = "" if threads == 1 else f" of {threads} threads"
    return (
        f"{text.plural(ranks, 'rank')}{each} share {text.plural(cores, 'core')}: they take turns, so times are longer"
        " than on as many devices",
    )


def _watched(
    command: list[str],
    request: RunRequest,
    bundle: Bundle,
    ranks: int,
    on_progress: OnProgress,
    should_stop: Callable[[], bool],
) -> _Ending:
    """Run the command under the agent until it has ended, or has to be; no process of it is left then."""
    began = time.monotonic()
    before = memory_kills()
    mark, watch = new_mark(), Watch(bundle.folder, ranks)
    with RunLog(bundle.log, on_progress) as log:
        agent = _start(command, request, mark)
        assert agent.stdout is not None
        try:
            stopped = _follow(agent, log, bundle, watch, began + request.time_limit_s, should_stop)
        finally:
            _end(agent, mark)
            heartbeats.clear(bundle.folder)
            _drain(agent, log)
            agent.stdout.close()
        took_s = time.monotonic() - began
        killed = kills_since(before)
        return _Ending(
            stopped, agent.returncode, tuple(log.exits), log.progress, log.last, took_s, log.notes, killed, watch.stall
        )  # fmt: skip


def _start(command: list[str], request: RunRequest, mark: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, MARK: mark, "OMP_NUM_THREADS": str(request.threads), **_own_code()}
    if os.path.isdir(f"/sys/class/net/{LOOPBACK}"):  # ranks of one machine need no other interface
        environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "explorer.runner.targets.agent", str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,  # Ctrl-C is for this process, which then ends the run orderly
        )
    except OSError as error:
        raise RunError(f"no process can be started: {(error.strerror or str(error)).lower()}") from None


def _own_code() -> dict[str, str]:
    """So that processes import this program, and not folders of the same name where they are started; modules of
    a model are looked for there all the same (`construct`)."""
    root = Path(__file__).parents[3]
    if root.name in ("site-packages", "dist-packages"):  # found without a word, and after the standard library
        return {"PYTHONSAFEPATH": "1"}
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{root}{os.pathsep}{before}" if before else str(root)}


def _follow(
    agent: subprocess.Popen[bytes], log: RunLog, bundle: Bundle, watch: Watch, deadline_s: float,
    should_stop: Callable[[], bool],
) -> RunStatus | None:  # fmt: skip
    """Read until the agent has ended; or why it has to be ended now."""
    failed_s: float | None = None
    while agent.poll() is None:
        _read(agent, log, POLL_S)
        now = time.monotonic()
        if watch.look(now):
            log.stall(watch.stall.words if watch.stall else "")
        if should_stop():
            return RunStatus.CANCELLED
        if now >= deadline_s:
            return RunStatus.TIME_LIMIT
        if failed_s is None and has_failures(bundle.folder):
            failed_s = now
        if failed_s is not None and now - failed_s > FAILURE_GRACE_S:
            return RunStatus.FAILED  # others wait for the one that failed, and do not hear when asked to end
    return None


def _read(agent: subprocess.Popen[bytes], log: RunLog, timeout_s: float) -> bool:
    """Hand on what there is; whether there may be more."""
    assert agent.stdout is not None
    ready, _, _ = select.select([agent.stdout], [], [], timeout_s)
    if not ready:
        return False
    data = os.read(agent.stdout.fileno(), MOST_AT_ONCE)
    if not data and agent.poll() is None:
        time.sleep(timeout_s)  # it closed its output but has not ended
    log.feed(data)
    return bool(data)


def _drain(agent: subprocess.Popen[bytes], log: RunLog) -> None:
    while _read(agent, log, 0.0):
        pass


def _end(agent: subprocess.Popen[bytes], mark: str) -> None:
    """The agent is asked to end the run; whatever is left a little later is killed."""
    if agent.poll() is None:
        agent.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            agent.wait(END_GRACE_S + 1.0)
    end_marked(mark, 0.0)
    if agent.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(agent.pid, signal.SIGKILL)  # its group: where marks cannot be read, they are no help
    agent.wait()


def _outcome(ending: _Ending, bundle: Bundle, plan_text: str) -> Outcome:
    if bundle.result.is_file():
        try:
            outcome = read_result(bundle)
        except InvalidProblem as error:
            return Outcome(RunStatus.FAILED, f"the result of the run is damaged: {error}")
        if outcome.status is not RunStatus.DONE or ending.status == 0:
            return outcome
        return replace(outcome, notes=(*outcome.notes, "a process failed after the result was written; see the log"))
    during = _during(ending.progress)
    took, stall = text.seconds(ending.took_s), f"; {ending.stall.words}" if ending.stall else ""
    if ending.stopped is RunStatus.CANCELLED:
        return Outcome(RunStatus.CANCELLED, f"cancelled after {took}, while {during}{stall}")
    if ending.stopped is RunStatus.TIME_LIMIT:
        reason = f"ended at its time limit, after {took}, while {during}{stall}"
        return Outcome(RunStatus.TIME_LIMIT, reason, ending.stall.rank if ending.stall else -1)
    reason, culprit = explain(
        read_failures(bundle.folder),
        ending.exits,
        lambda rank: predicted_peak_bytes(plan_text, rank),
        during,
        ending.memory_kills,
    )
    return Outcome(RunStatus.FAILED, reason or _unexplained(ending), culprit)


def _during(progress: RunProgress) -> str:
    return progress.phase + (f" ({progress.done} of {progress.of})" if progress.of else "")


def _unexplained(ending: _Ending) -> str:
    how = "ended without a result" if ending.status == 0 else f"ended with status {ending.status}"
    last = f"; its last words: {ending.last}" if ending.last else ""
    return f"the launcher {how}{last}"
