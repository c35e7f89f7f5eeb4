"""What a span of a course is, in words: "forward 3", "gradients of micro-batch 3, GPU 2 → 1"."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from explorer.view.plan_types import Course
from explorer.view.timeline.lanes import lane_label
from explorer.words import text
from explorer.words.actions import BACKWARD, KIND_WORDS, TRANSFER

NAME = 48
CARRIED = {"F": "activations", "U": "updated parameters"} | dict.fromkeys(BACKWARD, "gradients")
SYNC = "S"


class SpanWords:
    """devices: names by position. operators: names by position, empty where spans are of stages."""

    def __init__(self, course: Course, devices: Sequence[str], operators: Sequence[str] = ()) -> None:
        self.course, self.devices, self.operators = course, devices, operators
        work = [i for i, kind in enumerate(course["kind"]) if kind != TRANSFER]
        stages: dict[int, set[int]] = {}
        for i in work:
            stages.setdefault(course["device"][i], set()).add(course["stage"][i])
        self.several = {device for device, found in stages.items() if len(found) > 1}
        self.pieces = len({course["micro_batch"][i] for i in work if course["kind"][i] != "U"}) > 1

    def action(self, i: int) -> str:
        """Of compute, without its device: "forward 3", "backward 3 of stage 2", "update", "forward of layers.0.mlp"."""
        told = self.course
        kind, operator = told["kind"][i], told["operator"][i]
        words = KIND_WORDS[kind]
        if self.operators and operator >= 0:
            return f"{words} of {text.short(self.operators[operator], NAME)}"
        if kind != "U" and self.pieces:
            words += f" {told['micro_batch'][i]}"
        return words + (f" of stage {told['stage'][i]}" if told["device"][i] in self.several else "")

    def cargo(self, i: int) -> str:
        """Of a transfer: "activations of micro-batch 3", "all-reduce of the gradients of stage 2"."""
        told = self.course
        of, operator = told["of"][i], told["operator"][i]
        if of == SYNC:
            return f"all-reduce of the gradients of stage {told['stage'][i]}"
        if self.operators and operator >= 0:
            return f"output of {text.short(self.operators[operator], NAME)}"
        which = f" of micro-batch {told['micro_batch'][i]}" if self.pieces and of != "U" else ""
        return CARRIED.get(of, "output") + which

    def route(self, i: int) -> str:
        """Of a transfer: "GPU 2 → 1"."""
        told = self.course
        device, to = told["device"][i], told["to_device"][i]
        return self.devices[device] if to == device else lane_label(f"{device}->{to}", self.devices)

    def link(self, i: int) -> str:
        """The resource that a transfer occupies."""
        return lane_label(self.course["resources"][self.course["resource"][i]], self.devices)

    def state(self, i: int, device: int) -> str:
        """What a device does while the span occupies it."""
        told = self.course
        if told["kind"][i] != TRANSFER:
            return self.action(i)
        return f"{'sends' if told['device'][i] == device else 'receives'} {self.cargo(i)}"


def ranges(numbers: Collection[int]) -> str:
    """ "0–3, 7": micro-batches in few words."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
