"""What is due is done by one thread, which is gone when nothing is left."""

from __future__ import annotations

import threading
import time

from solvers.programs.processes.alarms import Alarms


def until(done):
    """Whether it comes to be, given time."""
    for _ in range(3000):
        if done():
            return True
        time.sleep(0.02)
    return False


def test_what_is_due_is_done_in_its_order_whatever_goes_wrong(caplog):
    alarms, done = Alarms(), []
    alarms.after(0.05, lambda: done.append("last"))
    alarms.after(0.0, lambda: 1 / 0)
    alarms.after(0.02, lambda: done.append("first"))
    assert until(lambda: len(done) == 2)
    assert done == ["first", "last"]
    assert "could not be done" in caplog.text


def test_many_wait_in_one_thread():
    alarms, done = Alarms(), []
    before = threading.active_count()
    for number in range(300):
        alarms.after(0.3, lambda number=number: done.append(number))
    assert threading.active_count() <= before + 1
    assert until(lambda: len(done) == 300)
    assert done == list(range(300))
    assert until(lambda: threading.active_count() <= before)


def test_what_is_forgotten_is_not_done_and_keeps_no_thread():
    alarms, done = Alarms(), []
    before = threading.active_count()
    late = [alarms.after(1000.0, lambda: done.append("late")) for _ in range(300)]
    alarms.after(0.01, lambda: done.append("soon"))
    for number in late:
        alarms.forget(number)
    alarms.forget(12345)
    assert until(lambda: done == ["soon"])
    assert until(lambda: threading.active_count() <= before)
