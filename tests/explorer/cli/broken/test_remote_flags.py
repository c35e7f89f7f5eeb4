"""A server for others does not start without a token that holds, nor one for this machine on another address."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.web.serving.quotas import MIB, SHARED
from explorer.web.serving.secret import VARIABLE
from tests.explorer.cli.command import Command


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--host", "0.0.0.0"), "served to this machine only"),
        (("--host", "0.0.0.0", "--public-origin", "https://lab"), "served to this machine only"),
        (("--public-origin", "https://lab.example"), "--public-origin needs --allow-remote"),
        (("--token-file", "token"), "--token-file needs --allow-remote"),
        (("--allow-remote",), "--allow-remote needs a token"),
        (("--allow-remote", "--host", "0.0.0.0"), "say what others call this server"),
        (("--allow-remote", "--host", "::"), "say what others call this server"),
        (("--allow-remote", "--public-origin", "lab.example"), "expected what a browser's address begins with"),
        (("--allow-remote", "--token-file", "/nowhere/token"), "no such file or directory"),
    ],
)
def test_what_is_missing_is_reported_in_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], message: str
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert message in command.refused("app", *flags)


def test_a_token_that_is_too_short_is_not_shown(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, "hunter2")
    message = command.refused("app", "--allow-remote")
    assert "must have 24 to 512 characters" in message
    assert "hunter2" not in message
    monkeypatch.delenv(VARIABLE)
    file = tmp_path / "token"
    file.write_text("hunter2")
    file.chmod(0o600)
    message = command.refused("app", "--allow-remote", "--token-file", file)
    assert "must have 24 to 512 characters" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("quota", ["questions", "questions=0", "bytes=3", "upload=many", "seconds=601"])
def test_a_quota_that_is_none(command: Command, quota: str) -> None:
    assert f"--quota {quota}: expected" in command.refused("app", "--quota", quota)


def test_the_help_states_the_usual_quotas(command: Command) -> None:
    output = " ".join(command("app", "--help").out.split())
    for words in (
        f"questions a second ({SHARED.questions_per_s:g} with --allow-remote, else none)",
        f"seconds that a search may ask for ({SHARED.search_s:g})",
        f"upload an hour ({SHARED.upload_bytes / MIB:g}MiB)",
        f"held in files ({SHARED.held_bytes / MIB:g}MiB)",
        f"pages ({SHARED.pages:g})",
    ):
        assert words in output
