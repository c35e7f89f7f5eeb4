"""On a server for others no visitor takes more than its part, and a line says where it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.browser.serving.conftest import TOKEN, fake
from tests.browser.serving.connecting import connect, request, websocket
from tests.browser.serving.test_remote import sign_in

KIB = 1024


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    """A question in a hundred seconds, ten at once; searches of 20 s; 100 KiB an hour, 64 KiB held; three pages."""
    quotas = {
        "questions_per_s": 0.01,
        "search_s": 20.0,
        "upload_bytes": 100.0 * KIB,
        "held_bytes": 64.0 * KIB,
        "pages": 3,
    }
    yield from fake({"token": TOKEN, "quotas": quotas})


def opened(address, cookie):
    page = connect(address, cookie=cookie)
    return page, json.loads(page.recv())


def answer_to(page, **session):
    """The words of the banner, or "plan"."""
    page.send(json.dumps({"type": "solve", "fresh": True, "session": {"model": "chain", **session}}))
    while True:
        message = json.loads(page.recv())
        if message["type"] == "banner":
            return json.dumps(message["children"])
        if message["type"] == "plan" and message["reason"] == "final":
            return "plan"


def test_who_asks_too_often_is_refused_and_the_others_are_answered(shared):
    cookie, other = sign_in(shared, TOKEN).cookie, sign_in(shared, TOKEN).cookie
    page, _ = opened(shared, cookie)
    again, _ = opened(shared, cookie)
    answers = [answer_to(page) for _ in range(14)]
    assert answers[:5] == ["plan"] * 5
    assert "one visitor may ask 0.01 questions a second here" in "".join(answers[-3:])
    others = [answer_to(again) for _ in range(3)]  # one more may be allowed by now
    assert "one visitor may ask" in "".join(others), "another page of the same visitor"
    other_page, _ = opened(shared, other)
    assert answer_to(other_page) == "plan"
    for each in (page, again, other_page):
        each.close()


def test_a_search_that_asks_for_more_seconds_is_refused(shared):
    page, _ = opened(shared, sign_in(shared, TOKEN).cookie)
    assert "a search may take 20 s on this server, not 30 s" in answer_to(page, time_limit=30)
    assert answer_to(page) == "plan"
    page.close()


def test_bytes_are_counted(shared):
    cookie, other = sign_in(shared, TOKEN).cookie, sign_in(shared, TOKEN).cookie
    page, hello = opened(shared, cookie)
    own = {"origin": shared.rstrip("/"), "cookie": cookie, "x_page_token": hello["token"]}
    large = request(shared, "/open", "POST", b"x" * 65 * KIB, **own)
    assert (large.status, json.loads(large.text)["refused"]) == (429, "the files of one visitor may take 64 KiB here")
    assert request(shared, "/open", "POST", b"x" * 60 * KIB, **own).status == 200
    more = request(shared, "/open", "POST", b"y" * 60 * KIB, **own)
    assert more.status == 429
    assert json.loads(more.text)["refused"] == "one visitor may hand in 100 KiB an hour here; try again in 12 min"
    other_page, greeted = opened(shared, other)
    own = {"origin": shared.rstrip("/"), "cookie": other, "x_page_token": greeted["token"]}
    assert request(shared, "/open", "POST", b"x" * 60 * KIB, **own).status == 200
    page.close()
    other_page.close()


def test_pages_are_counted(shared):
    cookie, other = sign_in(shared, TOKEN).cookie, sign_in(shared, TOKEN).cookie
    pages = [opened(shared, cookie)[0] for _ in range(3)]
    page = connect(shared, cookie=cookie)
    shown = page.recv_frame()
    assert shown.opcode == websocket.ABNF.OPCODE_CLOSE
    assert shown.data[2:] == b"at most 3 pages at once"
    other_page, _ = opened(shared, other)
    for each in (*pages, page, other_page):
        each.close()


def test_one_person_on_ones_own_machine_is_not_counted(fake_server):
    page = connect(fake_server)
    assert json.loads(page.recv())["type"] == "hello"
    assert [answer_to(page) for _ in range(40)] == ["plan"] * 40
    page.close()
