"""The part of a page's conversation about pins: what is selected shall be on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.view.graph.pinning import joined, members, merged, names
from explorer.web.contract import ids
from explorer.web.parts import pin_panel
from explorer.web.talk.plan_talk import PlanTalk
from solvers.errors import InvalidProblem


class PinTalk(PlanTalk):
    """Pins are part of the question; the page keeps them, and is told what they become. keeping: the names that shall
    stay with what is selected next."""

    keeping: tuple[str, ...] | None = None

    def _pin(self, message: Mapping[str, Any]) -> None:
        """Pin what is selected to a device, or (device null) let it go."""
        device, session = message.get("device"), self.session
        if session is None or self.skeleton is None:
            return
        if device is not None and (type(device) is not int or not 0 <= device < self._devices()):
            self.send({"type": "say", "text": f"There is no device {str(device)[:20]} to pin to."})
            return
        found, chosen = self._members(), self._chosen()
        if chosen is None:
            return
        told = merged(session.settings.pins, chosen, found, self.skeleton, device)
        words = pin_panel.words(chosen, device, self._names())
        self.send({"type": "pins", "pins": told, "together": session.settings.together, "words": words})

    def _together(self, _: Mapping[str, Any]) -> None:
        """What is selected shall stay with what is selected next."""
        chosen = self._chosen()
        if chosen is not None:
            self.keeping = chosen
            self._note(pin_panel.choose_next(chosen))

    def _select(self, message: Mapping[str, Any]) -> None:
        """A selection, which may be the other of two that are to stay together."""
        super()._select(message)
        kept, self.keeping = self.keeping, None
        if kept is None:
            return
        chosen = self._chosen()
        if chosen is not None and set(chosen) == set(kept):
            self.keeping = kept  # the same once more
            return
        if chosen is None or self.session is None:
            self.send({"type": "say", "text": "nothing more is kept together"})
            return
        settings = self.session.settings
        groups = joined(settings.together, (*kept, *chosen))
        words = pin_panel.together_words(kept, chosen)
        self.send({"type": "pins", "pins": settings.pins, "together": groups, "words": words})

    def _chosen(self) -> tuple[str, ...] | None:
        """The names that stand for what is selected; None, which is said, if there are none or too many."""
        found = self._members()
        if not found or self.skeleton is None:
            return None
        try:
            return names(found, self.skeleton)
        except InvalidProblem as error:
            self._note(str(error))
            return None

    def _members(self) -> frozenset[int]:
        """The operators that are selected."""
        if self.skeleton is None or self.view is None or self.selected is None:
            return frozenset()
        return members(*self.selected, self.view, self.skeleton, self.plan)

    def _note(self, words: str) -> None:
        self.send({"type": "say", "text": words})
        self.send({"type": "props", "props": {ids.PIN_NOTE: {"children": words}}})

    def _devices(self) -> int:
        return len(self.plan["devices"]) if self.plan is not None else 0

    def _names(self) -> list[str]:
        return [device["name"] for device in self.plan["devices"]] if self.plan is not None else []

    def _inspector(self) -> dict[str, Any]:
        """With the devices that the selection can be pinned to."""
        props = super()._inspector()
        found = self._members()
        if found and self.plan is not None:
            pinned = found <= set(self.plan["pinned"])
            on = {device for i in found for device in self.plan["placement"][i]} if pinned else set()
            props[ids.INSPECTOR]["children"] += pin_panel.choices(self._names(), on)
        return props
