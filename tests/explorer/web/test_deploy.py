"""What deploy/ holds, as far as it can be checked where none of it runs: files that are copied are there, commands are
ones that this version takes, nothing runs as root, and websockets get through the proxies."""

from __future__ import annotations

import argparse
import configparser
import json
import re
import shlex
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from explorer.cli import app

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """(instruction, the rest of its line) of the container file."""
    text = (DEPLOY / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    directives = [line.split(maxsplit=1) for line in whole.splitlines() if line.strip()]
    return [(name, rest) for name, rest in directives]


def all_of(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def parsed(*words: str) -> argparse.Namespace:
    """What the command makes of a command line. Raises SystemExit for one that it does not take."""
    parser = argparse.ArgumentParser()
    app.add(parser.add_subparsers())
    return parser.parse_args(words)


def test_the_container_is_built_of_what_is_there() -> None:
    assert {name for name, _ in instructions()} <= INSTRUCTIONS
    froms = all_of("FROM")
    assert froms[-1] == "python:3.11-slim"
    stages = {words[2] for words in map(str.split, froms) if len(words) == 3}
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    for rest in all_of("COPY"):
        *sources, _ = rest.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source in let_in, f"{source} is kept from the build by .dockerignore"
            assert not any(fnmatch(source, line) for line in ignored if line != "*" and not line.startswith("!"))


def test_the_container_installs_exact_versions_and_torch_for_cpus() -> None:
    installs = [part.strip() for rest in all_of("RUN") for part in rest.split("&&") if part.strip().startswith("pip")]
    assert len(installs) == 3
    torch, pinned, wheel = installs
    assert "--index-url https://download.pytorch.org/whl/cpu" in torch
    assert "grep '^torch==' /pins/constraints.txt" in torch
    assert len(re.findall("^torch==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)) == 1
    assert "--no-deps --require-hashes --requirement /pins/hashed.txt" in pinned
    assert "--constraint /pins/versions.txt" in wheel
    extras = re.search(r"\[([a-z,]+)\]", wheel)
    project = (ROOT / "pyproject.toml").read_text()
    assert extras is not None
    assert all(re.search(f"^{extra} = ", project, re.MULTILINE) for extra in extras[1].split(","))


def test_the_container_serves_as_nobody_in_particular_and_wants_a_token() -> None:
    names = [name for name, _ in instructions()]
    assert all_of("USER") == ["explorer"]
    assert "USER" not in names[names.index("ENTRYPOINT") :]
    assert any(rest.startswith("useradd") and rest.endswith(" explorer") for rest in all_of("RUN"))
    program, *words = json.loads(all_of("ENTRYPOINT")[0])
    assert program == "placement-explorer"
    args = parsed(*words, "--token-file", "/run/secrets/token", "--public-origin", "https://lab.example")
    assert args.allow_remote
    assert str(args.port) in all_of("EXPOSE")
    program, flag, code = json.loads(all_of("HEALTHCHECK")[0].partition("CMD ")[2])
    assert (program, flag) == ("python", "-c")
    assert f"'127.0.0.1', {args.port}" in code
    compile(code, "HEALTHCHECK", "exec")


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    text = (DEPLOY / "placement-explorer.service").read_text()
    parser.read_string(re.sub("\nEnvironment=.*", "", text))  # a key that comes twice in a unit is none of an INI file
    return parser


def test_the_service_runs_the_command_with_a_token_that_only_it_can_read() -> None:
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/placement-explorer")
    args = parsed(*words)
    assert args.allow_remote
    assert args.token_file == "%d/token"
    assert service["LoadCredential"].startswith("token:")
    assert args.host == "127.0.0.1"
    assert service["DynamicUser"] == "yes"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_knows_every_line_of_the_service(tmp_path: Path) -> None:
    text = (DEPLOY / "placement-explorer.service").read_text()
    copy = tmp_path / "placement-explorer.service"
    copy.write_text(text.replace("/opt/placement-explorer/bin/placement-explorer", "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)]
    verified = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert verified.stderr + verified.stdout == ""
    assert verified.returncode == 0


def test_the_proxies_pass_on_what_the_server_checks() -> None:
    nginx = re.sub("#.*", "", (DEPLOY / "nginx.conf").read_text())
    assert nginx.count("{") == nginx.count("}")
    for line in nginx.splitlines():
        assert not line.strip() or line.rstrip()[-1] in "{};", line
    for directive in (
        "proxy_http_version 1.1;",
        "proxy_set_header Host $host;",
        "proxy_set_header X-Forwarded-For $remote_addr;",
        "proxy_set_header X-Forwarded-Proto $scheme;",
        "proxy_set_header Upgrade $http_upgrade;",
        "proxy_set_header Connection $connection_upgrade;",
        "client_max_body_size 128m;",
    ):
        assert directive in nginx
    form = re.search(r"log_format placement '([^']*)'", nginx)
    assert form is not None
    assert not {"$request", "$request_uri", "$args"} & set(re.findall(r"\$\w+", form[1]))
    caddy = (DEPLOY / "Caddyfile").read_text()
    assert caddy.count("{") == caddy.count("}")
    port = parsed("app").port
    assert f"proxy_pass http://127.0.0.1:{port};" in nginx
    assert f"reverse_proxy 127.0.0.1:{port}\n" in caddy
