"""What lets people in: tokens, passes that end, guesses that cost time, and addresses as browsers write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explorer.web.serving.gate import FORGOTTEN_S, FREE, LONGEST_S, REMEMBERED, Guesses
from explorer.web.serving.public import names_of, parse_origin
from explorer.web.serving.secret import KEPT_S, LEAST, VARIABLE, Secret, read_secret
from explorer.web.serving.security import Names
from solvers.errors import InvalidProblem

TOKEN = "dBz5-9hT_x2LqVw0KfRm7uYc"


def test_a_pass_holds_for_a_week_and_only_as_it_was_given() -> None:
    secret = Secret(TOKEN)
    given = secret.new_pass(1000.0)
    name, until, sign = given.split(".")
    assert secret.visitor(given, 1000.0 + KEPT_S - 1) == name
    assert secret.visitor(given, 1000.0 + KEPT_S) is None
    for forged in (f"{name}.{int(until) + 1}.{sign}", f"x{given}", given[:-1], "", "..", f"{name}.é.{sign}", sign):
        assert secret.visitor(forged, 1000.0) is None
    assert Secret(TOKEN).visitor(given, 1000.0) == name
    assert Secret(TOKEN[::-1]).visitor(given, 1000.0) is None
    assert secret.new_pass(1000.0) != given


def test_a_token_is_distinguished_from_others_and_never_shown() -> None:
    secret = Secret(TOKEN)
    assert secret.is_token(TOKEN)
    assert not any(map(secret.is_token, ("", TOKEN[:-1], TOKEN + "x", TOKEN.lower(), "é\ud800")))
    assert TOKEN not in repr(secret) + repr(vars(secret))


@pytest.mark.parametrize(
    "token", ["a" * 100, TOKEN[: LEAST - 1], TOKEN * 30, TOKEN + " x", TOKEN + "\n" + TOKEN, "é" * 40]
)
def test_a_token_that_is_easily_guessed_or_cannot_be_sent_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(InvalidProblem) as refused:
        Secret(token)
    assert token not in str(refused.value)


def test_where_a_token_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    assert read_secret(str(file), {}).is_token(TOKEN)
    assert read_secret("", {VARIABLE: f"{TOKEN}\n"}).is_token(TOKEN)
    for path, environ, why in (
        ("", {}, "needs a token"),
        ("", {VARIABLE: " "}, "needs a token"),
        (str(file), {VARIABLE: TOKEN}, "two tokens"),
        (str(tmp_path), {}, "is a directory"),
        (os.devnull, {}, "not a regular file"),
    ):
        with pytest.raises(InvalidProblem, match=why):
            read_secret(path, environ)
    file.chmod(0o640)
    with pytest.raises(InvalidProblem, match="others may read it"):
        read_secret(str(file), {})


def test_who_guesses_waits_longer_each_time_until_it_is_forgotten() -> None:
    now = [0.0]
    guesses = Guesses(lambda: now[0])
    waits = []
    for _ in range(FREE + 8):
        guesses.wrong("192.0.2.1")
        waits.append(guesses.wait_s("192.0.2.1"))
    assert waits == [0.0] * FREE + [2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_S, LONGEST_S, LONGEST_S]
    assert guesses.wait_s("192.0.2.2") == 0.0
    now[0] = FORGOTTEN_S + 1
    guesses.wrong("192.0.2.1")
    assert guesses.wait_s("192.0.2.1") == 0.0
    guesses.right("192.0.2.1")


def test_a_network_of_ipv6_is_one_guesser_and_there_is_an_end_to_what_is_remembered() -> None:
    guesses = Guesses(lambda: 0.0)
    for host in range(FREE + 1):
        guesses.wrong(f"2001:db8::{host:x}")
    assert guesses.wait_s("2001:db8::ffff") == 2.0
    assert guesses.wait_s("2001:db8:0:1::1") == 0.0
    for host in range(REMEMBERED):
        guesses.wrong(f"198.51.{host // 250}.{host % 250}")
    assert guesses.wait_s("2001:db8::1") == 0.0


def test_origins_are_read_as_browsers_write_them() -> None:
    assert parse_origin("https://Lab.Example/") == "https://lab.example"
    assert parse_origin("https://lab.example:443") == "https://lab.example"
    assert parse_origin("http://lab7:8050") == "http://lab7:8050"
    assert parse_origin("http://[::1]:80") == "http://[::1]"
    for broken in (
        "lab.example",
        "ftp://lab",
        "https://",
        "https://a@b",
        "https://lab/x",
        "https://lab:99999",
        "https://[",
        "",
    ):
        with pytest.raises(InvalidProblem, match="--public-origin"):
            parse_origin(broken)
    assert names_of(["https://lab.example:8443", "http://[::1]"]) == {"lab.example", "[::1]"}


def test_pages_of_a_public_name_come_from_its_origin_only() -> None:
    names = Names(origins=frozenset({"https://lab.example"}))
    assert names.answers_for("lab.example:80")
    assert not names.answers_for("evil.example")
    assert names.own("https://lab.example", "127.0.0.1:8050")
    assert names.own("http://127.0.0.1:8050", "127.0.0.1:8050")
    assert not names.own("http://lab.example", "lab.example")
    assert not names.own(None, "lab.example")
