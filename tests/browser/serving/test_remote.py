"""A server that others reach lets nobody in without its token: no page, no asset, no socket."""

from __future__ import annotations

import json
import os
from urllib.parse import quote

import pytest

from tests.browser.serving.commands import Served
from tests.browser.serving.conftest import ORIGIN, TOKEN
from tests.browser.serving.connecting import connect, request, websocket

WRONG = "x" + TOKEN[1:]
PATHS = ("/", "/assets/page.css", "/_dash-layout", "/_dash-dependencies", "/take/abc", "/open", "/nothing/here")
BEARER = f"Bearer {TOKEN}"


@pytest.fixture
def cookie(guarded: str) -> str:
    return sign_in(guarded, TOKEN).cookie


def sign_in(address, token, path="/login", **headers):
    body = f"token={quote(token)}".encode()
    return request(address, path, "POST", body, content_type="application/x-www-form-urlencoded", **headers)


def elsewhere(number: int) -> dict[str, str]:
    """The header by which a proxy on this machine names a client: guesses of one test do not count in another."""
    return {"x_forwarded_for": f"192.0.2.{number}"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_no_path_answers_a_stranger(guarded, path, method):
    for headers in ({}, {"cookie": "placement-explorer=nonsense"}, {"cookie": "placement-explorer=a.99999999999.b"}):
        answer = request(guarded, path, method, **headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "set-cookie" not in answer.headers


def test_no_path_answers_a_wrong_token(guarded):
    for number, path in enumerate(PATHS):
        answer = request(guarded, path, authorization=f"Bearer {WRONG}", **elsewhere(number))
        assert answer.status == 401


@pytest.mark.parametrize("path", ["live", "_dash-ws-callback"])
@pytest.mark.parametrize("headers", [{}, {"authorization": f"Bearer {WRONG}"}, {"cookie": "placement-explorer=a.b.c"}])
def test_a_handshake_without_the_token_is_answered_with_401_and_a_closed_socket(guarded, path, headers):
    if path != "live":
        headers = {**headers, **elsewhere(20)}
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        connect(guarded, path, **headers)
    assert refused.value.status_code == (401 if path == "live" else 403)


def test_a_header_with_the_token_opens_every_path(guarded):
    assert request(guarded, "/", authorization=BEARER).status == 200
    assert request(guarded, "/assets/page.css", authorization=BEARER).status == 200
    socket = connect(guarded, authorization=BEARER)
    assert json.loads(socket.recv())["type"] == "hello"
    socket.close()


def test_the_form_gives_a_cookie_that_opens_every_path(guarded, cookie):
    for path in ("/", "/assets/page.css", "/_dash-layout"):
        answer = request(guarded, path, cookie=cookie)
        assert answer.status == 200
        assert "public" not in answer.headers["cache-control"]
        assert TOKEN not in answer.text
    socket = connect(guarded, cookie=cookie)
    assert json.loads(socket.recv())["type"] == "hello"
    socket.close()


def test_a_cookie_is_out_of_reach_of_scripts_and_of_other_sites(guarded):
    plain = sign_in(guarded, TOKEN)
    assert plain.status == 303
    assert plain.headers["location"] == "/"
    message = plain.headers["set-cookie"].lower()
    assert "httponly" in message
    assert "samesite=strict" in message
    assert "secure" not in message
    for headers in ({"host": "lab.example"}, {"x_forwarded_proto": "https"}):
        behind_tls = sign_in(guarded, TOKEN, **headers)
        assert behind_tls.cookie.startswith("__Host-placement-explorer=")
        assert "; secure" in behind_tls.headers["set-cookie"].lower()
        assert request(guarded, "/", cookie=behind_tls.cookie, **headers).status == 200
        assert request(guarded, "/", cookie=behind_tls.cookie).status == 401  # not over plain http


def test_a_link_with_the_token_leaves_it_in_no_address(guarded):
    answer = request(guarded, f"/?model=chain&token={TOKEN}&devices=3", accept="text/html")
    assert answer.status == 303
    assert answer.headers["location"] == "/?model=chain&devices=3"
    assert answer.headers["cache-control"] == "no-store"
    assert request(guarded, answer.headers["location"], cookie=answer.cookie).status == 200
    again = request(guarded, f"/?devices=3&token={TOKEN}", cookie=answer.cookie)
    assert (again.status, again.headers["location"]) == (303, "/?devices=3")
    assert "set-cookie" not in again.headers


def test_signing_in_leads_to_the_question_of_the_link(guarded):
    question = request(guarded, "/?model=chain&devices=3&x=%22%3E%3Cscript%3E", accept="text/html")
    assert question.status == 401
    assert 'action="/login?model=chain&amp;devices=3&amp;x=%22%3E%3Cscript%3E"' in question.text
    assert sign_in(guarded, TOKEN, "/login?model=chain&devices=3").headers["location"] == "/?model=chain&devices=3"


def test_a_link_on_another_site_is_followed_once_more_from_here(guarded):
    """A browser keeps a SameSite=Strict cookie back on the first request."""
    assert "http-equiv" in request(guarded, "/", accept="text/html", sec_fetch_site="cross-site").text
    assert "http-equiv" not in request(guarded, "/", accept="text/html", sec_fetch_site="same-origin").text


def test_who_guesses_waits(guarded):
    own, other = elsewhere(40), elsewhere(41)
    answers = [sign_in(guarded, f"{WRONG}{i}", **own) for i in range(5)]
    assert [answer.status for answer in answers] == [401, 401, 401, 401, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert sign_in(guarded, TOKEN, **own).status == 429, "the right one is not looked at either"
    assert request(guarded, "/", authorization=BEARER, **own).status == 429
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        connect(guarded, authorization=BEARER, **own)
    assert refused.value.status_code == 429
    assert sign_in(guarded, TOKEN, **other).status == 303, "others sign in"


def test_who_is_signed_in_goes_on_while_others_guess_from_the_same_address(guarded):
    own = elsewhere(50)
    cookie = sign_in(guarded, TOKEN, **own).cookie
    for i in range(5):
        sign_in(guarded, f"{WRONG}{i}", **own)
    assert request(guarded, "/", cookie=cookie, **own).status == 200


def test_no_form_is_too_large_for_it(guarded):
    assert sign_in(guarded, "y" * 100_000, **elsewhere(60)).status == 401
    assert request(guarded, "/login", "POST", b"\xff\xfe=%zz&" * 200, **elsewhere(61)).status == 401
    assert request(guarded, "/?token=%ff%00", **elsewhere(62)).status == 401


def test_pages_of_the_public_origin_may_connect_and_no_others(guarded):
    for host in ("lab.example", "lab.example:8443", "127.0.0.1"):  # as proxies pass it on
        socket = connect(guarded, origin=ORIGIN, host=host, authorization=BEARER)
        assert json.loads(socket.recv())["type"] == "hello"
        socket.close()
    for origin in ("http://lab.example", "https://lab.example.evil.example", "https://evil.example", "null"):
        with pytest.raises(websocket.WebSocketBadStatusException) as refused:
            connect(guarded, origin=origin, host="lab.example", authorization=BEARER)
        assert refused.value.status_code == 403
    assert request(guarded, "/", host="evil.example", authorization=BEARER).status == 421


def test_a_file_is_taken_from_whoever_opened_the_page_only(guarded, cookie):
    socket = connect(guarded, cookie=cookie)
    key = json.loads(socket.recv())["token"]
    other = sign_in(guarded, TOKEN).cookie
    own = {"x_page_token": key, "origin": guarded.rstrip("/")}
    assert request(guarded, "/open", "POST", b"{}", cookie=other, **own).status == 403
    assert request(guarded, "/open", "POST", b"{}", **own).status == 401
    socket.close()


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="reads what Linux knows of processes")
def test_the_command_keeps_the_token_from_its_log_and_its_workers():
    with Served(
        {"PLACEMENT_EXPLORER_TOKEN": TOKEN}, "--allow-remote", "--public-origin", "https://lab.example/"
    ) as one:
        assert request(one.address).status == 401
        assert request(one.address, authorization=BEARER).status == 200
        assert request(one.address, f"/?token={TOKEN}").status == 303
        assert all(TOKEN.encode() not in environ for environ in one.workers())
    assert TOKEN not in one.output
    assert "; for others https://lab.example" in one.output
