"""``plans``: the library of answers that were found before."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from explorer.cli.terminal.command import Commands, add_command, add_json, add_output, print_json, print_table
from explorer.cli.terminal.keeping import add_library_file, library_of
from explorer.files import write_file
from solvers.errors import InvalidProblem

if TYPE_CHECKING:
    from explorer.library.library import Library
    from explorer.library.rows import Listed

DIGITS = 12
"""Of a hash in a list."""
SHOWN = 40
"""Answers listed unless more are asked for."""
_AGE = re.compile(r"([0-9]{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}


def add_plans(commands: Commands) -> None:
    parser = add_command(
        commands,
        "plans",
        plans,
        "list, show, export and prune cached answers",
        "placement-explorer plans list --model gpt --devices 8",
    )
    add_library_file(parser)
    _add_filters(parser)
    add_json(parser)
    inside = parser.add_subparsers(title="what to do with them", metavar="WHAT", parser_class=type(parser))
    listing = _add(inside, "list", plans, "list answers, the newest first", "list --planner auto --devices 4")
    _add_filters(listing, argparse.SUPPRESS)
    one = _add(inside, "show", show, "show an answer as `plan` did", "show 1f0c2ab94d07")
    _add_hash(one)
    out = _add(inside, "export", export, "write the plan of an answer", "export 1f0c2ab94d07 -o plan.json")
    _add_hash(out)
    add_output(out, "-o", "--output", what="where to write plan.json", required=True)
    gone = _add(inside, "remove", remove, "remove answers", "remove 1f0c2ab94d07")
    gone.add_argument("hashes", nargs="+", metavar="HASH", help="of a question; its first digits will do")
    old = _add(inside, "prune", prune, "remove what is old, or of other code", "prune --older-than 90d --other-code")
    old.add_argument(
        "--older-than", type=_age, default=None, metavar="AGE", help="what was kept longer ago: 90d, 12w, 36h"
    )
    old.add_argument(
        "--other-code",
        action="store_true",
        default=False,
        help="what other versions found, and no one is given now",
    )
    _add(inside, "size", size, "say how much there is, and where", "size --json")


def _add(inside: Commands, name: str, run: object, summary: str, example: str) -> argparse.ArgumentParser:
    """Its flags may stand before its name, too: what is not said after it leaves that alone."""
    parser: argparse.ArgumentParser = inside.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example: placement-explorer plans {example}",
        argument_default=argparse.SUPPRESS,
    )
    parser.set_defaults(run=run)
    add_library_file(parser)
    add_json(parser)
    return parser


def _add_filters(parser: argparse.ArgumentParser, limit: object = SHOWN) -> None:
    parser.add_argument("--model", metavar="NAME", help="of this model; * stands for anything: 'hf:*'")
    parser.add_argument("--planner", metavar="NAME", help="of this planner")
    parser.add_argument("--devices", type=int, metavar="N", help="for so many accelerators")
    parser.add_argument("--limit", type=int, default=limit, metavar="N", help=f"most that are listed ({SHOWN})")


def _add_hash(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hash", metavar="HASH", help="of the question; its first digits will do")


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if not match:
        raise argparse.ArgumentTypeError(f"expected an age as 90d, 12w or 36h, found {text[:40]!r}")
    return timedelta(hours=int(match[1]) * _HOURS[match[2]])


def plans(args: argparse.Namespace) -> int:
    from explorer.library.browsing import browse

    if args.limit < 1:
        raise InvalidProblem(f"--limit must be at least 1, found {args.limit}")
    library = _opened(args)
    if library is None:
        return _nothing(args)
    with library:
        rows = [one for one in browse(library) if _is_wanted(one, args)]
    if args.json:
        print_json([_object(one) for one in rows[: args.limit]])
        return 0
    if not rows:
        print(f"no such answer is kept in {library.path}")
        return 0
    _print(rows[: args.limit])
    more = len(rows) - args.limit
    print(f"\nin {library.path}" + (f"; {more:,} more with --limit {len(rows)}" if more > 0 else ""))
    return 0


def show(args: argparse.Namespace) -> int:
    from explorer.cli.reports.report import print_report, result_object
    from explorer.library.browsing import named, taken

    with _there(args) as library:
        listed, answer = taken(library, named(library, args.hash))
    if args.json:
        print_json(_object(listed) | {"answer": result_object(answer.reference, answer.result)})
        return 0
    print(f"question   {listed.question}")
    print(f"kept       {listed.kept_at}, by {_code(listed)}")
    print_report(answer.reference, answer.result)
    return 0


def export(args: argparse.Namespace) -> int:
    from explorer.library.browsing import named, taken
    from solvers.formats.plan_json import write_plan

    with _there(args) as library:
        listed, answer = taken(library, named(library, args.hash))
    result = answer.result
    if result.plan is None:
        raise InvalidProblem(f"{listed.question[:DIGITS]} is {result.status.value}: there is no plan to write")
    write_file(args.output, write_plan(result.problem, result.plan, result, answer.reference), "exporting the plan")
    if args.json:
        print_json(_object(listed) | {"written": args.output})
    else:
        print(f"written    {args.output}")
    return 0


def remove(args: argparse.Namespace) -> int:
    from explorer.library.browsing import compact, named

    with _there(args) as library:
        count = library.remove(list(dict.fromkeys(named(library, given) for given in args.hashes)))
        compact(library)
    return _removed(count, args)


def prune(args: argparse.Namespace) -> int:
    from explorer.library.browsing import compact
    from explorer.library.browsing import prune as pruned

    if args.older_than is None and not args.other_code:
        raise InvalidProblem("say what is to go: --older-than 90d, --other-code, or both")
    library = _opened(args)
    if library is None:
        return _removed(0, args)
    with library:
        count = pruned(library, args.older_than, args.other_code)
        compact(library)
    return _removed(count, args)


def size(args: argparse.Namespace) -> int:
    from explorer.library import browsing
    from explorer.words import text

    library = _opened(args)
    if library is None:
        return _nothing(args)
    with library:
        sizes = browsing.size(library)
    if args.json:
        print_json({"path": str(library.path)} | sizes._asdict())
        return 0
    other = f" ({sizes.other:,} of other code)" if sizes.other else ""
    print(f"{text.plural(sizes.answers, 'answer')}{other} about {text.plural(sizes.graphs, 'graph')}")
    print(f"{text.nbytes(sizes.nbytes)} in {library.path}")
    return 0


def _opened(args: argparse.Namespace) -> Library | None:
    """The library that there is; none is made to be looked at. Raises LibraryTrouble."""
    try:
        from explorer.library.library import Library
    except ImportError:
        raise InvalidProblem("this Python was built without sqlite3, which the library of plans needs") from None
    path = library_of(args)
    if path is None:
        raise InvalidProblem("there is no library: it is off; --library FILE says which")
    return Library(path) if path.exists() else None


def _there(args: argparse.Namespace) -> Library:
    """The same, for whoever names an answer in it."""
    library = _opened(args)
    if library is None:
        raise InvalidProblem(f"there is no library of plans at {library_of(args)} yet; `plan` begins it")
    return library


def _nothing(args: argparse.Namespace) -> int:
    if args.json:
        print_json([])
    else:
        print(f"nothing is kept yet in {library_of(args)}; `placement-explorer plan MODEL` begins it")
    return 0


def _removed(count: int, args: argparse.Namespace) -> int:
    from explorer.words import text

    if args.json:
        print_json({"removed": count})
    else:
        print(f"removed    {text.plural(count, 'answer')}")
    return 0


def _is_wanted(one: Listed, args: argparse.Namespace) -> bool:
    return (
        (args.model is None or fnmatchcase(one.model, args.model))
        and args.planner in (None, one.planner)
        and args.devices in (None, one.devices)
    )


def _print(listed: list[Listed]) -> None:
    from explorer.words import text

    head = ["question", "model", "devices", "planner", "effort", "status", "objective", "", "gap", "took", "kept"]
    rows = [
        [
            one.question[:DIGITS], text.short(one.model, 30), f"{one.devices}", one.planner, one.effort, one.status,
            one.objective, text.seconds(one.objective_s), text.percent(one.gap), text.seconds(one.seconds),
            one.kept_at[:10] + ("" if one.is_current else " *"),
        ]
        for one in listed
    ]  # fmt: skip
    print_table([head, *rows], right=frozenset({2, 7, 8, 9}))
    if not all(one.is_current for one in listed):
        print("\n* of other code: kept to look at, and never given as an answer now")


def _code(one: Listed) -> str:
    version = one.made_by.get("placement-explorer", "an unknown version")
    return f"placement-explorer {version}" + ("" if one.is_current else ", other code than that of today")


def _object(one: Listed) -> dict[str, object]:
    from solvers.formats.json_text import finite_or_none

    return {
        "question": one.question,
        "model": one.model,
        "planner": one.planner,
        "effort": one.effort,
        "devices": one.devices,
        "status": one.status,
        "stop_reason": one.stop_reason,
        "objective": one.objective,
        "objective_s": finite_or_none(one.objective_s),
        "bound_s": finite_or_none(one.bound_s),
        "runtime_s": one.seconds,
        "kept_at": one.kept_at,
        "versions": dict(one.made_by),
        "current": one.is_current,
        "nbytes": one.nbytes,
    }


ADD = (add_plans,)
