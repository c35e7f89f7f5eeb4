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
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from explorer.runner.bundles.request import Backend
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field

LOCAL = "local"
MAX_FILE_BYTES = 2**20
MAX_TOKEN_BYTES = 64 * 1024
MAX_TARGETS = 100
MAX_SECONDS = 1e8
MAX_RANKS = 4096
KINDS = (LOCAL, "ray")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RAY = (
    "token_env", "token_file", "ca_file", "verify_tls", "hosts", "allow_plain_http", "installed", "python", "wait",
)  # fmt: skip
_COMMON = ("threads", "pin", "backend", "timeout", "max_ranks")


@dataclass(frozen=True, slots=True)
class LocalSetup:
    """This machine. threads, pin, backend, timeout_s: of a run that does not say otherwise."""

    name: str
    threads: int = 1
    pin: bool = True
    backend: Backend = Backend.AUTO
    timeout_s: float = 600.0
    max_ranks: int = MAX_RANKS

    @property
    def kind(self) -> str:
        return LOCAL

    @property
    def place(self) -> str:
        return "this machine"


@dataclass(frozen=True, slots=True)
class RaySetup:
    """A Ray cluster behind its job address. token_env and token_file: where the token is; "" for none.

    hosts: how many the ranks are spread over (0: as the cluster likes). allow_plain_http: whether the token may go
    to another machine unencrypted. installed: whether our packages are there already; python: the interpreter
    there. wait_s: how long the ranks may wait for room. The rest is as in `LocalSetup`.
    """

    name: str
    address: str
    token_env: str = ""
    token_file: str = ""
    ca_file: str = ""
    verify_tls: bool = True
    hosts: int = 0
    allow_plain_http: bool = False
    installed: bool = False
    python: str = "python"
    wait_s: float = 60.0
    threads: int = 1
    pin: bool = False
    backend: Backend = Backend.AUTO
    timeout_s: float = 600.0
    max_ranks: int = MAX_RANKS

    @property
    def kind(self) -> str:
        return "ray"

    @property
    def place(self) -> str:
        return self.address

    def token(self, environ: Mapping[str, str]) -> str:
        """The token, "" where none is declared. Raises InvalidProblem, which never shows what was read."""
        if self.token_env:
            found = environ.get(self.token_env, "").strip()
            if not found:
                raise InvalidProblem(f"target {self.name}: the environment variable {self.token_env} holds no token")
        elif self.token_file:
            found = _read_token(self.name, Path(self.token_file))
        else:
            return ""
        if not found.isascii() or not found.isprintable() or " " in found:
            raise InvalidProblem(f"target {self.name}: its token holds characters that a token cannot have")
        return found


TargetSetup = LocalSetup | RaySetup


def default_file(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if base else Path.home() / ".config") / "placement-explorer" / "targets.toml"


def read_target_file(path: Path) -> dict[str, TargetSetup]:
    """Name -> target, in the order of the file. Raises InvalidProblem that names file and key (or line)."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InvalidProblem(f"{path}: more than {MAX_FILE_BYTES:,} bytes; expected a few targets")
    try:
        tables = tomllib.loads(data.decode("utf-8"))
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
    return _local(name, table) if kind == LOCAL else _ray(name, table, base)


def _local(name: str, table: Field) -> LocalSetup:
    return LocalSetup(name, *_common(table.fields((), ("kind", *_COMMON)), pin=True))


def _ray(name: str, table: Field, base: Path) -> RaySetup:
    parts = table.fields(("kind", "address"), (*_RAY, *_COMMON))
    token_env, token_file = _text(parts, "token_env"), _path(parts, "token_file", base)
    if token_env and token_file:
        raise InvalidProblem(f"{table.where}: give token_env or token_file, not both")
    if token_env and not _VARIABLE.fullmatch(token_env):
        # what is there may be the token itself: it is not repeated
        raise InvalidProblem(f"{table.where}.token_env: expected the name of an environment variable")
    plain = parts["allow_plain_http"].flag() if "allow_plain_http" in parts else False
    address = _address(parts["address"], bool(token_env or token_file), plain)
    return RaySetup(
        name,
        address,
        token_env,
        token_file,
        _path(parts, "ca_file", base),
        parts["verify_tls"].flag() if "verify_tls" in parts else True,
        parts["hosts"].integer(1, MAX_RANKS) if "hosts" in parts else 0,
        plain,
        parts["installed"].flag() if "installed" in parts else False,
        _text(parts, "python") or "python",
        min(parts["wait"].number(), MAX_SECONDS) if "wait" in parts else 60.0,
        *_common(parts, pin=False),
    )


def _common(parts: dict[str, Field], *, pin: bool) -> tuple[int, bool, Backend, float, int]:
    timeout_s = parts["timeout"].number(1.0) if "timeout" in parts else 600.0
    return (
        parts["threads"].integer(1, 4096) if "threads" in parts else 1,
        parts["pin"].flag() if "pin" in parts else pin,
        parts["backend"].choice(Backend) if "backend" in parts else Backend.AUTO,
        min(timeout_s, MAX_SECONDS),
        parts["max_ranks"].integer(1, MAX_RANKS) if "max_ranks" in parts else MAX_RANKS,
    )


def _address(field: Field, has_token: bool, allow_plain_http: bool) -> str:
    """An address of scheme, host and port only, that no token is sent to in the open by accident."""
    text = field.text(2000)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if "@" in text or parts.query or parts.fragment:  # not repeated: it may hold a password
        raise InvalidProblem(f"{field.where}: expected http(s)://host:port without user, password, ? or #")
    if not host or parts.scheme not in ("http", "https") or not text.isprintable() or "\\" in text or " " in text:
        raise InvalidProblem(f"{field.where}: expected http(s)://host:port, found {text[:80]!r}")
    if is_loopback(host):
        return text.rstrip("/")
    if not has_token:
        raise InvalidProblem(
            f"{field.where}: {host} is not this machine, so anybody could run code there: give token_env or token_file"
        )
    if parts.scheme == "http" and not allow_plain_http:
        raise InvalidProblem(
            f"{field.where}: the token would go to {host} unencrypted; use https:// (or, where the network is trusted,"
            " allow_plain_http = true)"
        )
    return text.rstrip("/")


def _text(parts: dict[str, Field], key: str) -> str:
    return parts[key].text(4096) if key in parts else ""


def _path(parts: dict[str, Field], key: str, base: Path) -> str:
    """A path, ~ expanded, relative ones from where the file is."""
    told = _text(parts, key)
    return str(base / os.path.expanduser(told)) if told else ""


def _read_token(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise InvalidProblem(f"target {name}: {path}: {(error.strerror or str(error)).lower()}") from None
    found = data[:MAX_TOKEN_BYTES].decode("utf-8", "replace").strip() if len(data) <= MAX_TOKEN_BYTES else ""
    if not found:
        raise InvalidProblem(f"target {name}: {path} holds no token")
    return found
