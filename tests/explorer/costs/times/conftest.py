"""The command, run in this process."""

from tests.explorer.cli.conftest import command as command
