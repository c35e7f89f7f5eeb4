"""``app``: the page, in a browser."""

from __future__ import annotations

import argparse
import os
import socket
import sys

from explorer.cli.flags import MODEL_HELP
from explorer.cli.launching import add_targets
from explorer.cli.terminal.command import Commands, add_command
from explorer.cli.terminal.keeping import add_library, declare_library
from explorer.web.serving.public import ANY, LOOPBACK, parse_origin
from explorer.web.serving.secret import VARIABLE, read_secret
from solvers.errors import InvalidProblem

CLEAR = "placement-explorer: note: over http:// the token can be read on its way; put a proxy with TLS in front"
MOST_WORKERS = 64
WORKERS_HELP = (
    "processes that search, for several people at once; each may take its share of the memory (default: as many as"
    " there are cores, with 4 GiB each, at most 8)"
)


def add(commands: Commands) -> None:
    parser = add_command(commands, "app", run, "open the page in a browser", "placement-explorer app gpt --port 8050")
    parser.add_argument("model", metavar="MODEL", nargs="?", default="", help=MODEL_HELP)
    parser.add_argument("--host", default="127.0.0.1", help="an address of this machine (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8050)
    add_targets(parser)
    parser.add_argument(
        "--lessons", metavar="DIR", default="", help="a folder of lessons of your own: docs/examples/lessons.md"
    )
    add_library(parser, again="")
    parser.add_argument("--workers", type=int, metavar="N", help=WORKERS_HELP)
    parser.add_argument("--no-browser", action="store_true", help="print the address only")
    remote = parser.add_argument_group("for others (docs/serving.md)")
    remote.add_argument(
        "--allow-remote", action="store_true", help="accept clients with the token, on any address or behind a proxy"
    )
    remote.add_argument("--token-file", metavar="FILE", default="", help=f"holds the token (else ${VARIABLE})")
    remote.add_argument(
        "--public-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="what others' browsers call this server: https://lab.example (may be repeated)",
    )
    remote.add_argument(
        "--quota",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of each visitor (may be repeated): questions a second (2 with --allow-remote, else none), seconds that a"
        " search may ask for (60), upload an hour (512MiB), held in files (256MiB), pages (16); none for no limit",
    )


def run(args: argparse.Namespace) -> int:
    origins = _public(args)
    if not 0 <= args.port < 65536:
        raise InvalidProblem(f"--port must be from 0 to 65535, found {args.port}")
    if args.workers is not None and not 1 <= args.workers <= MOST_WORKERS:
        raise InvalidProblem(f"--workers must be from 1 to {MOST_WORKERS}, found {args.workers}")
    if args.targets:
        _declare(args.targets)
    if args.lessons:
        _check_folder(args.lessons)
    query = _first_question(args.model) if args.model else ""
    secret = read_secret(args.token_file, os.environ) if args.allow_remote else None
    os.environ.pop(VARIABLE, None)  # workers need not know it
    from explorer.web.serving.quotas import SHARED, UNLIMITED, read_quotas

    quotas = read_quotas(args.quota, SHARED if args.allow_remote else UNLIMITED)
    _check_free(args.host, args.port)
    declare_library(args)
    if any(origin.startswith("http:") for origin in origins) or (args.host not in LOOPBACK and not origins):
        print(CLEAR, file=sys.stderr)
    try:
        from explorer.web import Config, serve
        from explorer.web.serving.jobs_backend import JobsBackend
    except ImportError as error:
        raise InvalidProblem(f"the page needs {error.name}: pip install 'placement-explorer[app]'") from None
    try:
        backend = JobsBackend(args.model or None, args.workers, all_idle=secret is not None)
        config = Config(backend, query, args.host, lessons=args.lessons, secret=secret, origins=origins, quotas=quotas)
        serve(config, args.port, not args.no_browser and not args.allow_remote)
    except KeyboardInterrupt:  # as a server does, when it has closed what it had open
        print("placement-explorer: stopped", file=sys.stderr)
    return 0


def _public(args: argparse.Namespace) -> tuple[str, ...]:
    """Where others reach the server. Raises InvalidProblem for what only makes sense with --allow-remote, and for an
    address that no browser would ask for."""
    origins = tuple(map(parse_origin, args.public_origin))
    if args.allow_remote:
        if args.host in ANY and not origins:
            raise InvalidProblem(
                f"--host {args.host}: say what others call this server: --public-origin https://lab.example"
            )
        return origins
    if args.host not in LOOPBACK:
        raise InvalidProblem(
            f"--host {args.host}: the page is served to this machine only; use 127.0.0.1, or --allow-remote and a token"
        )
    for flag, given in (("--token-file", args.token_file), ("--public-origin", origins)):
        if given:
            raise InvalidProblem(f"{flag} needs --allow-remote")
    return ()


def _declare(path: str) -> None:
    """Where the page's plans can be run, for this process and those that it starts. Raises InvalidProblem."""
    from explorer.runner.targets.registry import load_targets

    load_targets(path)
    os.environ["PLACEMENT_EXPLORER_TARGETS"] = os.path.abspath(path)


def _check_folder(folder: str) -> None:
    """Raises InvalidProblem if it holds no lessons; what is wrong with one of them is found when they are read."""
    from explorer.view.lessons.reading import owners_files

    owners_files(folder)


def _first_question(model: str) -> str:
    """The page's first state: a file that states its cluster is planned for as many devices.

    Raises InvalidProblem for what cannot be opened, before anything is served.
    """
    from explorer.question.loading import check_name, load_file
    from explorer.view.session import VERSION

    check_name(model)
    if not os.path.isfile(model):
        return ""
    cluster = load_file(model).cluster
    if cluster is None or not cluster.accelerators:
        return ""
    return f"devices={len(cluster.accelerators)}&v={VERSION}"


def _check_free(host: str, port: int) -> None:
    """Raises InvalidProblem if somebody listens there: found out before the heavy imports."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InvalidProblem(f"cannot listen on {host} port {port}: {reason}; try --port {port + 1}") from None
