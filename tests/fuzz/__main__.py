"""``python -m tests.fuzz --cases 20000``: spoiled inputs for every reader, and the table of what came of them.

Exit status 1 if there was a fault; a case is shown again, and its input kept, with ``--reader NAME --case N``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from tests.benchmarks.table import show
from tests.fuzz.readers import READERS, SLOW
from tests.fuzz.trials import FAULT, READ, REFUSED, Outcome, Reader, attempt, outcomes

SHOWN = 20
"""Faults shown of each reader."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Spoiled inputs for every reader.")
    parser.add_argument("--cases", type=int, default=600, metavar="N", help="of all readers together (600)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, other cases (0)")
    parser.add_argument("--reader", choices=READERS, metavar="NAME", help=f"only this one of {', '.join(READERS)}")
    parser.add_argument("--case", type=int, metavar="N", help="only this case of the reader: its input and its outcome")
    parser.add_argument("--json", action="store_true", help="print what came of it as JSON")
    args = parser.parse_args()
    if args.case is not None:
        if args.reader is None:
            parser.error("--case is of one reader: say which with --reader")
        return _again(READERS[args.reader](), args.seed, args.case)
    by_reader: dict[str, list[Outcome]] = {}
    for name, cases in shares(args.cases, READERS if args.reader is None else [args.reader]).items():
        print(f"{name}: {cases:,} cases", file=sys.stderr)
        by_reader[name] = list(outcomes(READERS[name](), cases, args.seed))
    if args.json:
        print(json.dumps(by_reader))
    else:
        _report(by_reader)
    return int(any(outcome.kind == FAULT for outcomes_ in by_reader.values() for outcome in outcomes_))


def shares(cases: int, names: Collection[str]) -> dict[str, int]:
    """How many of the cases each reader is given."""
    weights = {name: 0.1 if name in SLOW else 1.0 for name in names}
    return {name: max(1, round(cases * weight / sum(weights.values()))) for name, weight in weights.items()}


def _again(reader: Reader, seed: int, case: int) -> int:
    path = Path(f"case-{case}-{reader.file_name}")
    kind, words = attempt(reader, reader.spoiled(seed, case), path)
    print(f"{kind}: {words}\nits input is in {path}")
    return int(kind == FAULT)


def _report(by_reader: dict[str, list[Outcome]]) -> None:
    rows: list[tuple[object, ...]] = []
    for name, all_of_it in by_reader.items():
        kinds = Counter(outcome.kind for outcome in all_of_it)
        rows.append((name, len(all_of_it), kinds[READ], kinds[REFUSED], kinds[FAULT]))
    totals = [sum(int(str(row[i])) for row in rows) for i in range(1, 5)]
    header = ("reader", "cases", "read", "refused in one line", "faults")
    show("Spoiled inputs", header, [*rows, ("all", *totals)], "numpy")
    for name, all_of_it in by_reader.items():
        faults = [outcome for outcome in all_of_it if outcome.kind == FAULT]
        for outcome in faults[:SHOWN]:
            print(f"{name}, case {outcome.number}: {outcome.words}")


if __name__ == "__main__":
    sys.exit(main())
