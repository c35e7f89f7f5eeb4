"""Targets are what the owner declared, nothing else; a token goes to nobody by accident and is shown to nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.runner.bundles.request import Backend
from explorer.runner.targets.ray import RayTarget
from explorer.runner.targets.registry import load_targets
from explorer.runner.targets.target_file import RaySetup, is_loopback
from solvers.errors import InvalidProblem

SECRET = "s3cr3t-token"
RAY = '[c]\nkind = "ray"\naddress = "{address}"\n'


def declare(folder: Path, text: str) -> str:
    path = folder / "targets.toml"
    path.write_text(text)
    return str(path)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(InvalidProblem) as refusal:
        load_targets(declare(folder, text), {})
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_there_is_always_a_local_target(tmp_path: Path) -> None:
    plain = load_targets(None, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert list(plain.setups) == ["local"]
    assert plain.get("local").name == "local"
    assert list(load_targets(declare(tmp_path, '[two]\nkind = "local"\n'), {}).setups) == ["local", "two"]


def test_a_file_is_detected_by_flag_by_variable_or_in_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "placement-explorer").mkdir()
    declare(tmp_path / "placement-explorer", '[three]\nkind = "local"\n')
    question = declare(tmp_path, '[two]\nkind = "local"\n')
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert "two" in load_targets(question, home).setups
    assert "two" in load_targets(None, home | {"PLACEMENT_EXPLORER_TARGETS": question}).setups
    assert "three" in load_targets(None, home).setups
    with pytest.raises(InvalidProblem, match="no such file"):
        load_targets(str(tmp_path / "none.toml"), home)


def test_a_target_says_what_a_run_is_by_default(tmp_path: Path) -> None:
    text = '[local]\nthreads = 2\npin = false\nbackend = "cpu"\ntimeout = 30\nmax_ranks = 3\n'
    targets = load_targets(declare(tmp_path, text), {})
    question = targets.defaults("local")
    assert (question.threads, question.pin, question.backend, question.time_limit_s) == (2, False, Backend.CPU, 30.0)
    assert targets.setup("local").max_ranks == 3


def test_an_unknown_name_is_refused_with_the_closest(tmp_path: Path) -> None:
    targets = load_targets(declare(tmp_path, '[cluster]\nkind = "local"\n'), {})
    with pytest.raises(InvalidProblem, match="did you mean 'cluster'"):
        targets.get("clutser")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a\n", "line 1"),
        ("a = 1\n", "targets.toml: a: expected a table"),
        ("[a]\n", "a.kind: expected one of local, ray"),
        ('[a]\nkind = "ssh"\n', "a.kind: expected one of local, ray, found 'ssh'"),
        ('[a]\nkind = "local"\nshell = "rm"\n', "a.shell: unknown field"),
        ('[a]\nkind = "local"\nthreads = 0\n', "a.threads: expected an integer from 1"),
        ('[a]\nkind = "local"\npin = 1\n', "a.pin: expected true or false"),
        ('[a]\nkind = "local"\ntimeout = inf\n', "a.timeout"),
        ('[a]\nkind = "ray"\n', "a.address: missing"),
        ('[local]\nkind = "ray"\naddress = "http://127.0.0.1:8265"\n', "'local' is always this machine"),
        ('["a b"]\nkind = "local"\n', "a target's name"),
        (RAY.format(address="ssh://127.0.0.1"), "c.address: expected http(s)://host:port"),
        (RAY.format(address="http://"), "c.address: expected http(s)://host:port"),
        (RAY.format(address="http://127.0.0.1:99999"), "c.address: expected http(s)://host:port"),
        (RAY.format(address="http://10.0.0.1:8265"), "10.0.0.1 is not this machine"),
        (RAY.format(address="https://localhost.example.org"), "is not this machine"),
        (RAY.format(address="http://0.0.0.0:8265"), "is not this machine"),
        (RAY.format(address="http://head:8265") + 'token_env = "T"\n', "unencrypted"),
        (RAY.format(address="https://head") + 'token_env = "T"\ntoken_file = "t"\n', "not both"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_file_and_key(text: str, message: str, tmp_path: Path) -> None:
    assert message in refused(tmp_path, text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_only_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)
    assert not any(is_loopback(other) for other in ("127.0.0.1.example.org", "10.0.0.1", "2130706433", "::", ""))


def test_a_password_in_an_address_or_a_token_in_place_of_a_name_is_not_repeated(tmp_path: Path) -> None:
    assert SECRET not in refused(tmp_path, RAY.format(address=f"http://me:{SECRET}@127.0.0.1:8265"))
    assert SECRET not in refused(tmp_path, RAY.format(address="https://head") + f'token_env = "{SECRET}"\n')


def test_a_token_is_read_where_it_is_requested_and_shown_nowhere(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    text = RAY.format(address="https://head:8265/") + 'token_file = "token"\nca_file = "ca.pem"\nhosts = 2\n'
    targets = load_targets(declare(tmp_path, text), {})
    setup = targets.setup("c")
    assert isinstance(setup, RaySetup)
    assert (setup.address, setup.ca_file, setup.hosts) == ("https://head:8265", str(tmp_path / "ca.pem"), 2)
    assert setup.token({}) == SECRET
    assert SECRET not in repr(targets)


def test_a_token_that_is_not_there_or_broken_is_stated_without_it(tmp_path: Path) -> None:
    targets = load_targets(declare(tmp_path, RAY.format(address="https://head") + 'token_env = "T"\n'), {})
    setup = targets.setup("c")
    assert isinstance(setup, RaySetup)
    assert setup.token({"T": SECRET}) == SECRET
    with pytest.raises(InvalidProblem, match="environment variable T holds no token"):
        setup.token({})
    with pytest.raises(InvalidProblem) as refusal:
        setup.token({"T": f"{SECRET}\r\nX-Other: 1"})
    assert SECRET not in str(refusal.value)


def test_a_token_may_go_in_the_open_only_where_the_owner_says_so(tmp_path: Path) -> None:
    text = RAY.format(address="http://head:8265") + 'token_env = "T"\nallow_plain_http = true\n'
    assert load_targets(declare(tmp_path, text), {}).setup("c").place == "http://head:8265"


def test_a_ray_target_is_made_of_what_is_declared_and_does_not_show_its_token(tmp_path: Path) -> None:
    text = RAY.format(address="https://head:8265") + 'token_env = "T"\nhosts = 2\nmax_ranks = 8\nwait = 5\n'
    target = load_targets(declare(tmp_path, text), {"T": SECRET}).get("c")
    assert target.name == "c"
    assert isinstance(target, RayTarget)
    setup = target.setup
    assert (target.token, setup.hosts, setup.max_ranks, setup.wait_s) == (SECRET, 2, 8, 5.0)
    assert SECRET not in repr(target)
