"""A Ray cluster as a target: the plan is pushed as a job over the Ray Jobs REST API, and its log followed.

The client is `ray_jobs`; on the cluster, `ray_driver` does the work.
"""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from explorer.files import write_file
from explorer.runner.bundles.bundle import Bundle, clear_results
from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.reproduce import RANK_MODULE
from explorer.runner.bundles.request import RunRequest, request_json
from explorer.runner.bundles.result_json import read_outcome
from explorer.runner.bundles.words import one_line
from explorer.runner.targets.failures import explain, predicted_peak_bytes, read_failures
from explorer.runner.targets.log import RunLog
from explorer.runner.targets.ray_http import Refused, Stopped, Unreachable, server_of
from explorer.runner.targets.ray_jobs import ENVIRONMENT, MAX_WORDS, JobReport, JobStatus, RayJobs
from explorer.runner.targets.ray_log import JobLog
from explorer.runner.targets.ray_package import make_package
from explorer.runner.targets.target import OnProgress, RunProgress
from explorer.runner.targets.target_file import RaySetup
from solvers.errors import InvalidProblem, RunError
from solvers.formats.json_text import dump_json


@dataclass(frozen=True, slots=True)
class RayTarget:
    """Runs plans on a Ray cluster (2.52 or newer).

    token: "" for none, which only this machine's own cluster may do without. patience_s: a cluster that does not answer
    for so long has vanished. poll_s: seconds between two looks. module: what ranks run; torch must be there.
    """

    setup: RaySetup
    token: str = field(default="", repr=False)
    patience_s: float = 8.0
    poll_s: float = 0.3
    module: str = RANK_MODULE

    @property
    def name(self) -> str:
        return self.setup.name

    def run(
        self,
        plan_text: str,
        request: RunRequest,
        ranks: int,
        folder: Path,
        on_progress: OnProgress,
        should_stop: Callable[[], bool],
    ) -> Outcome:
        """See `Target.run`. Raises RunError where the cluster does not answer at first, wants another token, or
        must not be used (`server_at`)."""
        if ranks > (most := self.setup.max_ranks):
            raise InvalidProblem(f"the plan needs {ranks} ranks; target {self.name} takes at most {most}")
        server = server_of(self.setup, self.token)
        package = make_package(plan_text, dump_json(request_json(request)), with_code=not self.setup.installed)
        jobs = RayJobs(server, should_stop)
        bundle = Bundle(folder)
        clear_results(bundle)
        try:
            on_progress(RunProgress("submitting"))
            jobs.version()
            jobs.upload(package)
        except Stopped:
            return Outcome(RunStatus.CANCELLED, "cancelled before it was submitted")
        with RunLog(bundle.log, on_progress) as log:
            run = _Run(self, jobs, request, bundle, log)
            outcome = run.follow(self._entrypoint(ranks), package.name, plan_text)
            return replace(outcome, notes=(*outcome.notes, *log.notes))

    def _entrypoint(self, ranks: int) -> str:
        setup = self.setup
        options = {"--ranks": ranks, "--hosts": setup.hosts, "--module": self.module, "--wait": setup.wait_s}
        words = [str(word) for option in options.items() for word in option]
        return "exec " + shlex.join([setup.python, "-m", "explorer.runner.targets.ray_driver", *words])


class _OutOfTime(Exception):
    """The time limit of the request has passed."""


class _Run:
    """One job, from its submission until it has ended."""

    def __init__(self, target: RayTarget, jobs: RayJobs, request: RunRequest, bundle: Bundle, log: RunLog) -> None:
        self._target = target
        self._jobs = jobs
        self._limit_s = request.time_limit_s
        self._bundle = bundle
        self._log = log
        self._job_log = JobLog()
        self._job = f"placement-explorer-{secrets.token_hex(8)}"
        self._began = time.monotonic()

    def follow(self, entrypoint: str, package_name: str, plan_text: str) -> Outcome:
        """Submit the job and watch it until there is an outcome."""
        try:
            # to its end, even if cancelled meanwhile: a job that starts after it was stopped would run on
            self._jobs.lasting().submit(self._job, entrypoint, package_name, ENVIRONMENT)
            report = self._watch()
        except Stopped:
            return self._ended(RunStatus.CANCELLED, "cancelled")
        except _OutOfTime:
            return self._ended(RunStatus.TIME_LIMIT, "ended at its time limit,")
        except Unreachable as error:
            self._jobs.end(self._job)
            return Outcome(
                RunStatus.FAILED,
                f"the cluster vanished: {error}; the job {self._job} may still run there until its time limit",
            )
        except Refused as error:
            self._jobs.end(self._job)
            return Outcome(RunStatus.FAILED, str(error))
        except BaseException:  # of whoever listens: nothing of the run may go on without them
            self._jobs.end(self._job)
            raise
        return self._outcome(report, plan_text)

    def _watch(self) -> JobReport:
        """How the job ended by itself. Raises _OutOfTime, and as `RayJobs.follow`."""
        for report in self._jobs.follow(
            self._job, poll_s=self._target.poll_s, patience_s=self._target.patience_s, check=self._check_time
        ):
            self._feed(report.log, report.ended)
        return report

    def _check_time(self) -> None:
        if time.monotonic() - self._began > self._limit_s:
            raise _OutOfTime

    def _feed(self, text: str, ended: bool) -> None:
        self._log.feed(self._job_log.feed(text, ended=ended).encode())

    def _ended(self, status: RunStatus, why: str) -> Outcome:
        """Stop the job, wait until it has ended, take the rest of its log."""
        took_s = time.monotonic() - self._began
        sure = self._jobs.end(self._job)
        self._feed(self._jobs.last_log(self._job), True)
        doubt = "" if sure else f"; the cluster does not confirm that the job {self._job} has ended"
        return Outcome(status, f"{why} after {took_s:.1f} s{doubt}")

    def _outcome(self, report: JobReport, plan_text: str) -> Outcome:
        try:
            text = self._job_log.result_text()
            outcome = None if text is None else read_outcome(self._jobs.server.blotted(text))
        except (RunError, InvalidProblem) as error:
            return Outcome(RunStatus.FAILED, f"the result of the run cannot be used: {error}")
        if outcome is not None:
            if outcome.status is not RunStatus.DONE or report.status is JobStatus.SUCCEEDED:
                return outcome
            return replace(
                outcome, notes=(*outcome.notes, "a process failed after the result was written; see the log")
            )
        if report.status is JobStatus.STOPPED:
            return Outcome(RunStatus.CANCELLED, "the job was stopped on the cluster")
        for rank, words in self._job_log.rank_failures.items():
            write_file(self._bundle.failure(rank), words, "saving why a rank failed")
        reason, culprit = explain(
            read_failures(self._bundle.folder), self._log.exits, lambda rank: predicted_peak_bytes(plan_text, rank)
        )
        failure = self._job_log.failure
        if failure is not None and not (reason and failure.status is RunStatus.FAILED):
            return Outcome(failure.status, failure.reason)
        reason = reason or self._unexplained(report)
        if "No module named" in reason:
            reason += " (what a model needs must be installed on the cluster)"
        return Outcome(RunStatus.FAILED, reason, culprit)

    def _unexplained(self, report: JobReport) -> str:
        if self._log.last:
            return f"the job ended without a result; its last words: {self._log.last}"
        return f"the job ended without a result ({report.status.value.lower()}): {one_line(report.message, MAX_WORDS)}"
