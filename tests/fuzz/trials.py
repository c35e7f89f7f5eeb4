"""Try spoiled inputs, each reader in a process of its own under limits, and say what came of each.

An input is read, or refused in one line of bounded length. Anything else is a fault: another exception, a message that
is no line or not printable, more memory or time than allowed, the end of the process. Cases of even number are broken
(`mutations`), the others are well formed and hostile (`hostile`).
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple, NoReturn

from solvers.errors import PlacementError, printable
from tests.fuzz.hostile import hostile_bytes, hostile_text, hostile_tree, marked
from tests.fuzz.mutations import Tree, spoiled_bytes, spoiled_text, spoiled_tree, written
from tests.fuzz.shown import check_texts

MEMORY_BYTES = 2**30
"""What a reader may take beyond what its process has."""
CPU_S = 20
WALL_S = 120.0
"""Before a process that says nothing is killed: it hangs where no signal is heeded."""
LONGEST = 500
READ, REFUSED, FAULT = "read", "refused", "FAULT"
ROOT = str(Path(__file__).parents[2])


@dataclass(frozen=True)
class Reader:
    """Something that reads what comes from outside.

    samples: valid inputs: parsed JSON, a text, or bytes. read: takes the bytes of one, and the path of a file that
    holds them. packed: makes an input of JSON's bytes (a zip archive of them). mended: makes what a change of the tree
    had broken fit again, so that changes get further.
    """

    samples: tuple[Tree | str | bytes, ...]
    read: Callable[[bytes, Path], object]
    file_name: str = "input.json"
    packed: Callable[[bytes], bytes] = bytes
    mended: Callable[[Tree], Tree] | None = None

    def spoiled(self, seed: int, number: int) -> bytes:
        """The input of a case, the same each time; those below 0 are the samples as they are."""
        if number < 0:
            return self._bytes(self.samples[number])
        rng = random.Random(f"{seed}/{number}")
        sample = rng.choice(self.samples)
        if number % 2:
            return self._hostile(sample, rng)
        if isinstance(sample, bytes) or rng.random() < 0.12:
            return spoiled_bytes(self._bytes(sample), rng)
        if isinstance(sample, str):
            return spoiled_text(sample, rng)
        tree = spoiled_tree(sample, rng)
        if self.mended is not None and rng.random() < 0.7:
            tree = self.mended(tree)
        return self.packed(written(tree))

    def _hostile(self, sample: Tree | str | bytes, rng: random.Random) -> bytes:
        if isinstance(sample, bytes):
            return hostile_bytes(sample, rng)
        if isinstance(sample, str):
            return hostile_text(sample, rng)
        tree = hostile_tree(sample, rng)
        if self.mended is not None and rng.random() < 0.9:
            tree = self.mended(tree)
        return self.packed(marked(written(tree), rng))

    def _bytes(self, sample: Tree | str | bytes) -> bytes:
        if isinstance(sample, bytes):
            return sample
        return sample.encode() if isinstance(sample, str) else self.packed(written(sample))


class Outcome(NamedTuple):
    number: int
    kind: str
    words: str


class _Hang(BaseException):
    """The reader has used its time."""


def outcomes(reader: Reader, cases: int, seed: int) -> Iterator[Outcome]:
    """What came of the samples as they are, and of so many cases; a process that ends is followed by another."""
    number = -len(reader.samples)
    while number < cases:
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            _child(reader, range(number, cases), seed, write_end)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as shown:
            for outcome in _outcomes(shown, child):
                number = outcome.number + 1
                yield outcome
        _, status = os.waitpid(child, 0)
        if number < cases:
            code = os.waitstatus_to_exitcode(status)
            how = "hung, and heeded no signal" if code == -signal.SIGKILL else f"ended its process ({code})"
            yield Outcome(number, FAULT, how)
            number += 1


def attempt(reader: Reader, data: bytes, path: Path) -> tuple[str, str]:
    """What comes of one input: the kind, and the message or what is wrong."""
    path.write_bytes(data)
    try:
        check_texts(reader.read(data, path))
    except PlacementError as error:
        message = str(error)
        if len(message) > LONGEST or printable(message) != message or not message.strip():
            return (
                FAULT,
                f"a message of {len(message):,} characters, or not printable: {message[:200]!r}",
            )
        return REFUSED, message
    except MemoryError as error:
        return FAULT, "more memory than allowed" + _where(error)
    except _Hang as hang:
        return FAULT, f"more than {CPU_S} s of CPU time" + _where(hang)
    except BaseException as error:
        return FAULT, f"{type(error).__name__}: {str(error)[:120]!r}" + _where(error)
    return READ, ""


def _where(error: BaseException) -> str:
    """The last lines of the project that were at work."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(ROOT)]
    frames = [frame for frame in frames if "/tests/" not in frame.filename] or frames
    places = [f"{frame.filename.removeprefix(ROOT + '/')}:{frame.lineno}" for frame in frames[-3:]]
    return " at " + " < ".join(reversed(places)) if places else ""


def _child(reader: Reader, numbers: range, seed: int, pipe: int) -> NoReturn:
    def on_time(_: int, __: FrameType | None) -> None:
        raise _Hang

    status = 1
    try:
        with open("/proc/self/statm") as sizes:
            size = int(sizes.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
        signal.signal(signal.SIGPROF, on_time)
        with tempfile.TemporaryDirectory() as folder:
            for number in numbers:
                data = reader.spoiled(seed, number)
                signal.setitimer(signal.ITIMER_PROF, CPU_S)
                kind, words = attempt(reader, data, Path(folder) / reader.file_name)
                signal.setitimer(signal.ITIMER_PROF, 0)
                if number < 0 and kind == REFUSED:
                    kind, words = FAULT, f"a valid sample was refused: {words}"
                os.write(pipe, json.dumps(Outcome(number, kind, words)).encode() + b"\n")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _outcomes(pipe: IO[bytes], child: int) -> Iterator[Outcome]:
    """What the child reports, until it ends or has reported nothing for too long."""
    rest = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], WALL_S)
        if not ready:
            os.kill(child, signal.SIGKILL)
        data = os.read(pipe.fileno(), 65_536)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield Outcome(*json.loads(line))
