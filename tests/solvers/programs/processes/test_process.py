"""A child process: what it may use, what it may not do to its parent, and its end, however that comes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from solvers.programs.processes.entry import Channel
from solvers.programs.processes.frames import LENGTH
from solvers.programs.processes.process import ChildProcess
from solvers.programs.processes.spec import ProcessSpec

WAIT_S = 120


def echo(channel: Channel) -> None:
    """Sends back what comes, and ends with its parent."""
    while (message := channel.next()) is not None:
        channel.send("echo", message[1])


def hang(channel: Channel) -> None:
    """Heeds nothing, not even signals that Python would see to."""
    print("printed, and no message")
    channel.send("temporary", tempfile.gettempdir())
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    while True:
        time.sleep(0.01)


def greedy(channel: Channel) -> None:
    try:
        bytearray(2**30)
    except MemoryError:
        channel.send("refused")


def liar(channel: Channel) -> None:
    """Writes a message that is none, by a length that no machine has."""
    channel._target.write(LENGTH.pack(2**62) + b"what")
    channel._target.flush()
    channel.next()


def nonsense(channel: Channel) -> None:
    channel._target.write(LENGTH.pack(4) + b"what")
    channel._target.flush()
    channel.next()


ECHO = ProcessSpec(main=echo, name="placement-test")


@contextmanager
def child(spec):
    messages, ended = queue.Queue(), threading.Event()
    process = ChildProcess(spec, messages.put, lambda _: ended.set())
    try:
        yield process, messages
    finally:
        process.close()
        assert ended.wait(WAIT_S)
        assert gone(process.pid)


def gone(pid) -> bool:
    """Whether it has ended, given time."""
    for _ in range(WAIT_S * 50):
        status = Path(f"/proc/{pid}/stat")
        try:
            if status.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def group(pid):
    """Processes of its group."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _group_of(path) == pid]


def _group_of(path):
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[2])
    except (OSError, ValueError, IndexError):
        return 0


@pytest.mark.parametrize("trusted", [False, True])
def test_messages_go_both_ways_whole_and_in_order(trusted):
    with child(replace(ECHO, trusted=trusted)) as (process, messages):
        sent = ["a\nb", 2**62, float("inf"), "x" * 2**22, []]
        for content in sent:
            process.send(("message", content))
        assert [messages.get(timeout=WAIT_S)[1] for _ in sent] == sent


def test_a_child_that_nobody_waits_for_ends_by_itself():
    with child(ECHO) as (process, _):
        process.disconnect()
        assert process.wait(WAIT_S)


def test_what_a_child_has_started_and_written_goes_with_it():
    with child(ProcessSpec(main=hang, name="placement-test", own_temporary=True)) as (process, messages):
        _, folder = messages.get(timeout=WAIT_S)
        Path(folder, "left").touch()
        while len(group(process.pid)) < 2:
            time.sleep(0.01)
        started = group(process.pid)
        process.close()
        assert all(gone(pid) for pid in started)
        assert not Path(folder).exists()


def test_a_message_that_no_child_of_ours_sends_ends_it():
    with child(ProcessSpec(main=nonsense, name="placement-test")) as (process, messages):
        assert process.wait(WAIT_S)
        assert messages.empty()


def test_a_length_that_a_child_made_up_reserves_nothing():
    with child(ProcessSpec(main=liar, name="placement-test")) as (process, messages):
        assert not process.wait(1.0)
        assert messages.empty()


def test_what_cannot_be_dealt_with_keeps_nobody_from_the_next(caplog):
    received = queue.Queue()

    def fails_once(message):
        received.put(message)
        if received.qsize() == 1:
            raise RuntimeError("broken on purpose")

    process = ChildProcess(ECHO, fails_once)
    process.send(("message", 1))
    process.send(("message", 2))
    assert [received.get(timeout=WAIT_S)[1]] == [1]
    assert [received.get(timeout=WAIT_S)[1]] == [2]
    process.close()
    assert "broken on purpose" in caplog.text


def test_a_child_has_its_limit_of_memory():
    pytest.importorskip("resource")
    with child(ProcessSpec(main=greedy, name="placement-test", memory_bytes=2**29)) as (_, messages):
        assert messages.get(timeout=WAIT_S) == ["refused"]


def test_signals_of_the_terminal_end_no_child_though_it_has_just_begun():
    ignored = (signal.SIGINT, signal.SIGTERM)
    with child(replace(ECHO, ignored=ignored)) as (process, messages):
        for number in ignored:
            os.kill(process.pid, number)
        process.send(("message", "still there"))
        assert messages.get(timeout=WAIT_S)[1] == "still there"


def test_who_sends_never_waits_for_a_child_that_stands_still():
    with child(ECHO) as (process, messages):
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(4):
            process.send(("message", "x" * 2**20))  # more than a pipe takes
        assert messages.empty()


def test_no_pipe_is_closed_under_the_thread_that_reads_it():
    """Its descriptor may be another child's by the time it reads on: it would take that child's messages."""
    at_a_message, go_on = threading.Event(), threading.Event()

    def slow(_):
        at_a_message.set()
        go_on.wait(WAIT_S)

    process = ChildProcess(ECHO, slow)
    process.send(("message", 1))
    assert at_a_message.wait(WAIT_S)
    process.disconnect()
    process.kill()
    closing = threading.Thread(target=process.close)
    closing.start()
    assert gone(process.pid)
    assert not process._popen.stdout.closed
    go_on.set()
    closing.join(WAIT_S)
    assert process._popen.stdout.closed
    assert process._popen.stdin.closed


@pytest.mark.parametrize("spec", ["ECHO", "ProcessSpec(main=hang, name='placement-test')"])
def test_a_child_ends_with_its_parent_whatever_it_is_at(spec):
    code = (
        "import time\nfrom tests.solvers.programs.processes.test_process import *\n"
        f"process = ChildProcess({spec}, print)\nprint(process.pid, flush=True)\n"
        "process.send(('message', 1))\ntime.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.stdout.readline()  # it has begun
        parent.kill()
    assert gone(pid)
