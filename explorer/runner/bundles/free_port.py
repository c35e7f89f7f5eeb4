"""Whether ranks can meet at a port: ``python -m explorer.runner.bundles.free_port ADDRESS PORT``.

Exit status 2 and one line where somebody else has it. An address that is not this host's is for its own host to say.
"""

from __future__ import annotations

import errno
import socket
import sys


def trouble(address: str, port: str) -> str:
    """What is wrong, in a line; "" if nothing is."""
    if not port.isdigit() or not 1 <= int(port) <= 65535:
        return f"MASTER_PORT: expected a number from 1 to 65535, found {port[:40]!r}"
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, int(port), type=socket.SOCK_STREAM)[0]
    except OSError:
        return f"MASTER_ADDR: no host is called {address[:100]!r}"
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"port {port} of {address} is in use: set MASTER_PORT to another one, such as {_free(address)}"
    return ""


def _free(address: str) -> int:
    """One that nobody has now."""
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])


def main(argv: list[str]) -> int:
    message = trouble(*argv) if len(argv) == 2 else "usage: python -m explorer.runner.bundles.free_port ADDRESS PORT"
    if message:
        print(f"run.sh: {message}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
