"""Numbers as people read them. The only place that knows units; None and inf become a dash."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

NOTHING = "–"
GIB = 1024**3
MOST_PLACES = 7
"""Decimals: beyond them a number is noise to a reader, whatever it is compared with."""

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((1024**4, "TiB"), (GIB, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_COUNTS = ((1e12, "T"), (1e9, "B"), (1e6, "M"))


def known(value: float | None) -> bool:
    """Whether there is a finite number to show."""
    return value is not None and math.isfinite(value)


def seconds(value: float | None) -> str:
    """``0.0123`` -> "12.3 ms": three significant digits in the unit that fits."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0 s"
    scale, unit = time_unit(abs(value))
    if abs(value) / scale >= 999.5:
        scale, unit = time_unit(abs(value) * 1.001)
    return f"{digits(value / scale)} {unit}"


def seconds_alike(values_s: Sequence[float | None], significant: int = 5) -> list[str]:
    """Times that are compared: all in the unit that fits the largest, with the decimals in which the
    least that is not 0 shows ``significant`` digits, but for zeros that all of them end in.
    ``[0.1, 0.25]`` -> "100 ms", "250 ms"."""
    given = [value for value in values_s if value is not None and math.isfinite(value)]
    sizes = [abs(value) for value in given if value] or [1.0]
    scale, unit = time_unit(max(sizes))
    places = min(MOST_PLACES, max(0, significant - 1 - math.floor(math.log10(min(sizes) / scale))))
    while places and all(round(value / scale, places) == round(value / scale, places - 1) for value in given):
        places -= 1
    return [
        f"{value / scale:,.{places}f} {unit}" if value is not None and math.isfinite(value) else NOTHING
        for value in values_s
    ]


def time_unit(largest_s: float) -> tuple[float, str]:
    """(seconds per unit, unit) in which a number as large as ``largest_s`` reads well."""
    for scale, unit in _TIMES:
        if largest_s >= scale:
            return scale, unit
    return _TIMES[-1]


def nbytes(value: float | None) -> str:
    """``17179869184`` -> "16 GiB"."""
    if value is None or not math.isfinite(value):
        return NOTHING
    for scale, unit in _BYTES:
        if abs(value) >= scale * 0.9995:
            return f"{digits(value / scale)} {unit}"
    return f"{value:,.0f} B"


def percent(share: float | None) -> str:
    """``0.123`` -> "12.3 %"; never "0 %" or "100 %" for what is only close to it."""
    if share is None or not math.isfinite(share):
        return NOTHING
    value = round(share * 100, 9)  # times that were added up in another order differ in their last digits
    if 0 < value < 0.1:
        return "< 0.1 %"
    if 99.9 < value < 100:
        return "> 99.9 %"
    if abs(value) >= 100:
        return f"{value:,.0f} %"
    return f"{value:.1f}".removesuffix(".0") + " %"


def signed(value: float, formatter: Callable[[float], str] = percent) -> str:
    """A difference with its sign: ``-0.02`` -> "−2 %". formatter: how its size is written."""
    return ("−" if value < 0 else "+") + formatter(abs(value))


def signed_share(share: float, least: float = 0.001) -> str:
    """ "+8 %", "−0.4 %"; what is less than ``least`` has no sign."""
    return percent(abs(share)) if abs(share) < least else signed(share)


def change(before: float | None, after: float | None, same: float = 1e-9, alike: str = "equal") -> str:
    """By what share a number grew: ``(8, 9)`` -> "+12.5 %".

    same: the relative difference up to which it is ``alike``. "" where there is nothing to compare with.
    """
    if before is None or after is None or not (math.isfinite(before) and math.isfinite(after)):
        return ""
    if before == after or (before > 0 and abs(after / before - 1) <= same):
        return alike
    return signed(after / before - 1) if before > 0 else ""


def points(before: float | None, after: float | None, same: float = 1e-9, alike: str = "equal") -> str:
    """By how much a share grew, which is no share of a share: ``(0.1, 0.131)`` -> "+3.1 points"."""
    if before is None or after is None:
        return ""
    if abs(after - before) <= same:
        return alike
    return signed(after - before, lambda share: f"{share * 100:.1f}".removesuffix(".0") + " points")


def quantity(value: float | None, unit: str) -> str:
    """A number in its unit: "s", "bytes", "share" or "per s"."""
    formatter = {"s": seconds, "bytes": nbytes, "share": percent, "per s": rate}[unit]
    return formatter(value)


def from_best(objective_s: float, bound_s: float) -> str:
    """How much more than the best possible plan one may take, of which ``bound_s``, more than 0, is a lower bound."""
    times = objective_s / bound_s
    if times < 2:
        return f"at most {percent(times - 1)} slower than the best possible"
    return f"at most {times:,.1f} times the best possible"


def percents(shares: Sequence[float]) -> list[str]:
    """Shares and their sum as whole percents, without the sign, such that the rounded ones add up to the
    rounded sum (by largest remainder): ``[0.114, 0.034, 0.093]`` -> "12", "3", "9", "24"."""
    exact = [share * 100 for share in shares]
    total = round(sum(exact))
    whole = [math.floor(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in order[: max(0, total - sum(whole))]:
        whole[i] += 1
    return [str(value) for value in [*whole, total]]


def count(value: float | None) -> str:
    """``1284`` -> "1,284"."""
    return f"{value:,.0f}" if value is not None and math.isfinite(value) else NOTHING


def large(value: float | None) -> str:
    """``410000000`` -> "410 M": parameters, FLOPs."""
    if value is None or not math.isfinite(value):
        return NOTHING
    for scale, unit in _COUNTS:
        if abs(value) >= scale:
            return f"{digits(value / scale)} {unit}"
    return count(value)


def rate(per_s: float | None) -> str:
    """``416.9`` -> "417 /s"."""
    if per_s is None or not math.isfinite(per_s):
        return NOTHING
    return f"{per_s:,.0f} /s" if per_s >= 100 else f"{digits(per_s)} /s"


def digits(value: float) -> str:
    """Three significant digits without an exponent, thousands apart, no trailing zeros."""
    if value == 0:
        return "0"
    places = min(6, max(0, 2 - math.floor(math.log10(abs(value)))))
    shown = f"{value:,.{places}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def plural(number: int, what: str) -> str:
    """``(1, "operator")`` -> "1 operator"; ``(1284, "operator")`` -> "1,284 operators"; "4 batches"."""
    return f"{number:,} {what}" + ("" if number == 1 else "es" if what.endswith("ch") else "s")


def counted(names: Iterable[str], times: str = "×") -> str:
    """ "2 × A100-40GB + 1 × cpu": each name once, with how often it is there."""
    return " + ".join(f"{count} {times} {name}" for name, count in Counter(names).items())


def listing(words: Sequence[str], limit: int = 3) -> str:
    """ "a, b and c"; beyond ``limit``, "a, b, c and 5 more"."""
    if not words:
        return NOTHING
    shown = list(words[:limit])
    if len(words) > limit:
        return ", ".join(shown) + f" and {len(words) - limit:,} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def words(name: str) -> str:
    """The name of a status as prose: "TIME_LIMIT" -> "time limit"."""
    return name.lower().replace("_", " ")


def short(name: str, limit: int) -> str:
    """A name of at most ``limit`` characters, its middle left out."""
    if len(name) <= limit:
        return name
    tail = (limit - 1) // 2
    return name[: limit - 1 - tail] + "…" + name[len(name) - tail :]


def short_path(path: str, limit: int) -> str:
    """A dotted name of at most ``limit`` characters: its first part and as many of the last as have room, whole ones
    where they have any ("vision…0" of "vision.layers.0")."""
    if len(path) <= limit:
        return path
    first, *rest = path.split(".")
    for start in range(1, len(rest)):
        tail = ".".join(rest[start:])
        if len(first) + 1 + len(tail) <= limit:
            return f"{first}…{tail}"
    return short(path, limit)


def plain(name: str) -> str:
    """A name as plotly's pseudo-HTML shows it literally."""
    return html.escape(name, quote=False)


def first_line(error: BaseException) -> str:
    """Of what an error says; its type, where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__
