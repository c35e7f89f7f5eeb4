"""The file in which the owner of a machine declares targets: TOML, one table a target.

    [local]
    threads = 2

    [cluster]
    kind = "ray"
    address = "https://head.example.org:8265"
    token_env = "RAY_AUTH_TOKEN"

A secret is never in the file: it says which environment variable or which other file holds it.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from explorer.runner.bundles.outcome import MAX_RANKS
from explorer.runner.bundles.request import Backend
from explorer.runner.bundles.words import one_line
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import file_bytes
from solvers.formats.records import Within, keys_of, readers_of, record_of

LOCAL = "local"
MAX_FILE_BYTES = 2**20
MAX_TOKEN_BYTES = 64 * 1024
MAX_TARGETS = 100
MAX_SECONDS = 1e8
MAX_HOST = 253
"""Characters."""
KINDS = (LOCAL, "ray")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = {"timeout_s": "timeout", "wait_s": "wait"}
"""What fields are called in the file."""


S = TypeVar("S", bound="Setup")


def _seconds(field: Field) -> float:
    return min(field.number(), MAX_SECONDS)


def _limit(field: Field) -> float:
    return min(field.number(1.0), MAX_SECONDS)


Text = Annotated[str, Within(most=4096)]


@dataclass(frozen=True, slots=True)
class Setup:
    """What every target has: threads, pin, backend and timeout_s of a run that does not say otherwise."""

    name: str
    _: KW_ONLY
    threads: Annotated[int, Within(1, 4096)] = 1
    pin: bool = True
    backend: Backend = Backend.AUTO
    timeout_s: Annotated[float, _limit] = 600.0
    max_ranks: Annotated[int, Within(1, MAX_RANKS)] = MAX_RANKS


@dataclass(frozen=True, slots=True)
class LocalSetup(Setup):
    """This machine."""

    @property
    def kind(self) -> str:
        return LOCAL

    @property
    def place(self) -> str:
        return "this machine"


@dataclass(frozen=True, slots=True)
class RaySetup(Setup):
    """A Ray cluster behind its job address. token_env and token_file: where the token is; "" for none.

    hosts: how many the ranks are spread over (0: as the cluster likes). allow_plain_http: whether the token may go
    to another machine unencrypted. installed: whether our packages are there already; python: the interpreter
    there. wait_s: how long the ranks may wait for room.
    """

    address: Annotated[str, Within(most=2000)]
    _: KW_ONLY
    token_env: Text = ""
    token_file: Text = ""
    ca_file: Text = ""
    verify_tls: bool = True
    hosts: Annotated[int, Within(1, MAX_RANKS)] = 0
    allow_plain_http: bool = False
    installed: bool = False
    python: Text = "python"
    wait_s: Annotated[float, _seconds] = 60.0
    pin: bool = False

    @property
    def kind(self) -> str:
        return "ray"

    @property
    def place(self) -> str:
        return self.address

    def token(self, environ: Mapping[str, str]) -> str:
        """The token, "" where none is declared. Raises InvalidProblem, which never shows what was read."""
        if self.token_env:
            value = environ.get(self.token_env, "").strip()
            if not value:
                raise InvalidProblem(f"target {self.name}: the environment variable {self.token_env} holds no token")
        elif self.token_file:
            value = _read_token(self.name, Path(self.token_file))
        else:
            return ""
        if not value.isascii() or not value.isprintable() or " " in value:
            raise InvalidProblem(f"target {self.name}: its token holds characters that a token cannot have")
        return value


TargetSetup = LocalSetup | RaySetup


def default_file(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if base else Path.home() / ".config") / "placement-explorer" / "targets.toml"


def read_target_file(path: Path) -> dict[str, TargetSetup]:
    """Name -> target, in the order of the file. Raises InvalidProblem that names file and key (or line)."""
    try:
        tables = tomllib.loads(file_bytes(path, MAX_FILE_BYTES).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidProblem(f"{path}: not UTF-8 text (byte {error.start})") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InvalidProblem(f"{path}: not TOML: {error}") from None
    if len(tables) > MAX_TARGETS:
        raise InvalidProblem(f"{path}: {len(tables):,} targets, at most {MAX_TARGETS} are read")
    return {name: _target(name, Field(table, f"{path}: {name}"), path.parent) for name, table in tables.items()}


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _target(name: str, table: Field, base: Path) -> TargetSetup:
    if not _NAME.fullmatch(name):
        raise InvalidProblem(f"{table.where[:200]}: a target's name has letters, digits, '.', '_' and '-' only")
    if not isinstance(table.value, dict):
        raise InvalidProblem(f"{table.where}: expected a table, [{name}], with the target's kind")
    given = table.fields_among_others(())
    kind = given["kind"].text() if "kind" in given else LOCAL if name == LOCAL else ""
    if kind not in KINDS:
        raise InvalidProblem(f"{table.where}.kind: expected one of {', '.join(KINDS)}, found {kind[:80]!r}")
    if name == LOCAL and kind != LOCAL:
        raise InvalidProblem(f"{table.where}: 'local' is always this machine; give the {kind} target another name")
    return _read(name, table, LocalSetup) if kind == LOCAL else _ray(name, table, base)


def _read(name: str, table: Field, kind: type[S]) -> S:
    must, may = (tuple(_WORDS.get(key, key) for key in keys if key != "name") for keys in keys_of(kind))
    parts = table.fields(must, ("kind", *may))
    by_field = {key: parts[word] for key in readers_of(kind) if (word := _WORDS.get(key, key)) in parts}
    return record_of(kind, by_field, name=name)


def _ray(name: str, table: Field, base: Path) -> RaySetup:
    setup = _read(name, table, RaySetup)
    if setup.token_env and setup.token_file:
        raise InvalidProblem(f"{table.where}: give token_env or token_file, not both")
    if setup.token_env and not _VARIABLE.fullmatch(setup.token_env):
        # what is there may be the token itself: it is not repeated
        raise InvalidProblem(f"{table.where}.token_env: expected the name of an environment variable")
    has_token = bool(setup.token_env or setup.token_file)
    if why := unsafe(setup.address, has_token=has_token, allow_plain_http=setup.allow_plain_http):
        raise InvalidProblem(f"{table.where}.address: {why}")
    return replace(
        setup,
        address=setup.address.rstrip("/"),
        token_file=_path(setup.token_file, base),
        ca_file=_path(setup.ca_file, base),
        python=setup.python or "python",
    )


def unsafe(address: str, *, has_token: bool, allow_plain_http: bool) -> str:
    """Why work and token must not go to an address, "" if they may: it has to be of scheme, host, port and maybe a path
    only, and of another machine guarded by a token, which is not sent in the open by accident."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if "@" in address or parts.query or parts.fragment:  # not repeated: it may hold a password
        return "expected http(s)://host:port without user, password, ? or #"
    plain = address.isascii() and address.isprintable() and " " not in address and "\\" not in address
    if not plain or not 0 < len(host) <= MAX_HOST or parts.scheme not in ("http", "https"):
        return f"expected http(s)://host:port, found {one_line(address, 80)!r}"
    if is_loopback(host):
        return ""
    if not has_token:
        return f"{host} is not this machine and needs a token (token_env or token_file): anybody could run code there"
    if parts.scheme == "http" and not allow_plain_http:
        trusted = "or, where the network is trusted, allow_plain_http = true"
        return f"the token would go to {host} unencrypted; use https:// ({trusted})"
    return ""


def _path(given: str, base: Path) -> str:
    """A path, ~ expanded, relative ones from where the file is."""
    return str(base / os.path.expanduser(given)) if given else ""


def _read_token(name: str, path: Path) -> str:
    try:
        token = file_bytes(path, MAX_TOKEN_BYTES).decode("utf-8", "replace").strip()
    except InvalidProblem as error:
        raise InvalidProblem(f"target {name}: {error}") from None
    if not token:
        raise InvalidProblem(f"target {name}: {path} holds no token")
    return token
