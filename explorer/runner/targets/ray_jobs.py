"""The client of a Ray cluster, for every kind of work: upload packages, submit a job, follow it to its end, end it.

Nothing of Ray is needed: it is the Ray Jobs REST API, over plain HTTP (`ray_http`).

Jobs that have ended are left in the cluster's own list, for its owner to see. (Up to Ray 2.60, one that is deleted
within a second of its end comes back as failed.) Every reply is a stranger's: its size is limited and its JSON is
checked field by field.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from explorer.runner.bundles.words import one_line
from explorer.runner.targets.ray_http import Refused, Reply, Server, Stopped, Unreachable
from explorer.runner.targets.ray_package import Package
from solvers.errors import InvalidProblem, RunError
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, parse_json

MAX_REPLY_BYTES = 2**20
MAX_LOG_BYTES = 64 * 2**20
"""Of a job's log, which is fetched whole every time: the driver keeps it far below this but for a large result."""
MAX_MESSAGE = 100_000
ASK_S, SUBMIT_S, UPLOAD_S = 5.0, 30.0, 60.0
"""Time limits of requests. The first submission to a cluster takes a few seconds."""


ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
"""Of every job."""
MAX_WORDS = 500
END_S = 10.0
"""How long a job that was asked to stop is waited for; Ray kills it after 3 s."""
LOOK_S = 0.1


class JobStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def is_final(self) -> bool:
        return self not in (JobStatus.PENDING, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class JobReport:
    """How a job stands. message: what Ray says to that, in a line; log: all that it has printed so far."""

    status: JobStatus
    message: str
    log: str

    @property
    def ended(self) -> bool:
        return self.status.is_final


@dataclass(frozen=True, slots=True)
class RayJobs:
    """The jobs of one cluster. should_stop: asked while a reply is waited for; Stopped is raised if it says so.

    Every method raises Unreachable (which may pass), Refused or Stopped.
    """

    server: Server
    should_stop: Callable[[], bool]

    def version(self) -> str:
        """Ray's version on the cluster."""
        reply = self._request("GET", "/api/version")
        with _checked(self.server):
            return _fields(reply, "ray_version")["ray_version"].text(100)

    def upload(self, package: Package) -> None:
        """Unless it is there."""
        path = f"/api/packages/gcs/{package.name}"
        if self._request("GET", path, missing_is_fine=True).status == 404:
            self._request("PUT", path, package.data, "application/zip", timeout_s=UPLOAD_S)

    def submit(
        self, job: str, entrypoint: str, package_name: str, environment: dict[str, str], modules: str = ""
    ) -> None:
        """Start ``entrypoint``, a line for a shell, in the unpacked package. job: a name that is not taken. modules: a
        package of Python modules that its processes find, too; unpacked once for all jobs that name it."""
        runtime: dict[str, object] = {"working_dir": f"gcs://{package_name}", "env_vars": environment}
        if modules:
            runtime["py_modules"] = [f"gcs://{modules}"]
        submission = {"submission_id": job, "entrypoint": entrypoint, "runtime_env": runtime}
        self._request("POST", "/api/jobs/", dump_json(submission).encode(), timeout_s=SUBMIT_S)

    def has_job(self, job: str) -> bool:
        """Whether the cluster knows a job of that name, however it is."""
        return self._request("GET", f"/api/jobs/{job}", missing_is_fine=True).status != 404

    def status(self, job: str) -> tuple[JobStatus, str]:
        """Where it is, and what Ray says to that in a line."""
        reply = self._request("GET", f"/api/jobs/{job}")
        with _checked(self.server):
            parts = _fields(reply, "status", "message")
            message = parts["message"]
            return parts["status"].choice(JobStatus), "" if message.is_null else message.prose(MAX_MESSAGE)

    def logs(self, job: str) -> str:
        """All that it has printed so far."""
        reply = self._request("GET", f"/api/jobs/{job}/logs", most_bytes=MAX_LOG_BYTES)
        with _checked(self.server):
            return _fields(reply, "logs")["logs"].prose(MAX_LOG_BYTES)

    def follow(
        self,
        job: str,
        *,
        poll_s: float,
        patience_s: float,
        share: float = 0.0,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[JobReport]:
        """How a job stands, again and again, until it has ended.

        poll_s: seconds between two reports. share: or, where that is longer, so many times what the last one took: a
        log is fetched whole each time. patience_s: a cluster that does not answer for so long has vanished. check:
        called while it waits; what it raises passes. Raises Stopped, Refused, and Unreachable where it has vanished.
        """
        answered_s = time.monotonic()
        while True:
            took_s, began_s = 0.0, time.monotonic()
            try:
                status, message = self.status(job)  # first: a log that is read after the end is whole
                report = JobReport(status, message, self.logs(job))
                answered_s = time.monotonic()
                took_s = answered_s - began_s
                yield report
                if report.ended:
                    return
            except Unreachable:
                if time.monotonic() - answered_s > patience_s:
                    raise
            until = time.monotonic() + max(poll_s, share * took_s)
            while True:
                if self.should_stop():
                    raise Stopped("cancelled")
                check()
                if time.monotonic() > until:
                    break
                time.sleep(min(LOOK_S, poll_s))

    def end(self, job: str) -> bool:
        """Stop a job, even where nothing else goes on, and wait for that. Returns whether it has surely ended."""
        lasting = self.lasting()
        deadline = time.monotonic() + END_S
        try:
            lasting._request("POST", f"/api/jobs/{job}/stop", b"")
            while not lasting.status(job)[0].is_final:
                if time.monotonic() > deadline:
                    return False
                time.sleep(LOOK_S)
        except RunError:
            return False
        return True

    def last_log(self, job: str) -> str:
        """All that a stopped job printed; "" where it cannot be had."""
        with suppress(RunError):
            return self.lasting().logs(job)
        return ""

    def lasting(self) -> RayJobs:
        """For what is done even if the work was cancelled."""
        return replace(self, should_stop=lambda: False)

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
        *,
        timeout_s: float = ASK_S,
        most_bytes: int = MAX_REPLY_BYTES,
        missing_is_fine: bool = False,
    ) -> Reply:
        reply = self.server.request(
            method,
            path,
            body=body,
            content_type=content_type,
            timeout_s=timeout_s,
            most_bytes=most_bytes,
            should_stop=self.should_stop,
        )
        place, status = self.server.address, reply.status
        if status == 200 or (status == 404 and missing_is_fine):
            return reply
        if status == 401:
            raise Refused(
                f"{place}: asks for a token (HTTP 401); name the one of this cluster in the target's settings"
            )
        if status == 403:
            raise Refused(f"{place}: does not accept this token (HTTP 403)")
        message = _last_line(reply.body)
        if status >= 500 or status == 429:
            raise Unreachable(f"{place}: cannot serve {method} {path} at the moment (HTTP {status}): {message}")
        raise Refused(f"{place}: refuses {method} {path} (HTTP {status}): {message}")


def _fields(reply: Reply, *names: str) -> dict[str, Field]:
    return Field(parse_json(reply.body, "its reply"), "its reply").fields_among_others(names)


@contextmanager
def _checked(server: Server) -> Iterator[None]:
    try:
        yield
    except InvalidProblem as error:
        raise Refused(f"{server.address}: is that a Ray cluster's address? {error}") from None


def _last_line(text: str) -> str:
    """What a traceback ends with: the exception."""
    lines = [line for line in text[-20_000:].splitlines() if line.strip()]
    return one_line(lines[-1], 300) if lines else "no reason given"
