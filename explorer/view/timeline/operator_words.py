"""What the bars of a schedule of single operators are, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.view.plan_types import Bars
from explorer.words import text
from explorer.words.actions import KIND_WORDS, TRANSFER

NAME = 64
SOON = 1e-6
"""Share of a transfer's end up to which its reader starts "at once"."""


class OperatorWords:
    """Words of bars. found: all bars of the schedule; operators, devices, links: names by position."""

    def __init__(
        self, found: Bars, operators: Sequence[str], devices: Sequence[str], links: Sequence[Mapping[str, Any]]
    ) -> None:
        self.operators, self.devices, self.links = operators, devices, links
        self.start: dict[int, float] = {}
        self.sent: dict[int, list[int]] = {}
        for i, (kind, operator) in enumerate(zip(found["kind"], found["operator"], strict=True)):
            if operator < 0:
                continue
            if kind == TRANSFER:
                self.sent.setdefault(operator, []).append(found["to_device"][i])
            else:
                self.start[operator] = found["start_s"][i]

    def hover(self, drawn: Bars, i: int) -> str:
        """Pseudo-HTML: where, what, of which operator, how long and when, and who waits for it."""
        start, end = drawn["start_s"][i], drawn["end_s"][i]
        kind, link = drawn["kind"][i], drawn["link"][i]
        where = self.links[link]["label"] if kind == TRANSFER and link >= 0 else self.devices[drawn["device"][i]]
        lines = [f"<b>{text.plain(where)}</b> · {text.plain(self.what(drawn, i))}"]
        if drawn["operator"][i] >= 0:
            of = "of " if kind == TRANSFER else ""
            lines.append(of + text.plain(text.short(self.operators[drawn["operator"][i]], NAME)))
        lines.append(f"{text.seconds(end - start)} · {text.seconds(start)} to {text.seconds(end)}")
        lines += [text.plain(line) for line in (self.waits(drawn, i),) if line]
        if drawn["spans"][i] > 1:
            lines.append("zoom in to see each")
        return "<br>".join(lines)

    def what(self, drawn: Bars, i: int) -> str:
        """ "forward", "transfer to GPU 1, 2 MiB", "17 operators, backward"."""
        kind, spans = drawn["kind"][i], drawn["spans"][i]
        if kind == TRANSFER:
            to = drawn["to_device"][i]
            size = text.nbytes(drawn["nbytes"][i])
            if spans > 1:
                return f"{spans:,} transfers, {size}"
            sends = to == drawn["device"][i]
            return f"sends {size}" if sends else f"transfer to {self.devices[to]}, {size}"
        word = KIND_WORDS[kind]
        return word if spans == 1 else f"{text.plural(spans, 'operator')}, {word}"

    def waits(self, drawn: Bars, i: int) -> str:
        """Who reads a transfer, and whether it waited for it; to whom an operator's results are sent."""
        reader, operator = drawn["reader"][i], drawn["operator"][i]
        if reader >= 0 and reader in self.start:
            name = text.short(self.operators[reader], NAME)
            late = self.start[reader] - drawn["end_s"][i]
            to = self.devices[drawn["to_device"][i]]
            if late <= SOON * max(drawn["end_s"][i], 1e-9):
                return f"{to} then runs {name}"
            return f"read {text.seconds(late)} later by {name}"
        if drawn["kind"][i] != TRANSFER and operator in self.sent and drawn["spans"][i] == 1:
            places = sorted(set(self.sent[operator]) - {drawn["device"][i]})
            return f"sent to {text.listing([self.devices[d] for d in places], 4)}" if places else ""
        return ""
