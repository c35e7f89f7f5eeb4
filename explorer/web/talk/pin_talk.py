"""The part of a page's conversation about pins: what is selected shall be on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.view.graph.pinning import members, merged, names
from explorer.web.contract import ids
from explorer.web.parts import pin_panel
from explorer.web.talk.plan_talk import PlanTalk
from solvers.errors import InvalidProblem


class PinTalk(PlanTalk):
    """Pins are part of the question; the page keeps them, and is told what they become."""

    def _pin(self, message: Mapping[str, Any]) -> None:
        """Pin what is selected to a device, or (device null) let it go."""
        device, session = message.get("device"), self.session
        if session is None or self.skeleton is None or self.view is None or self.selected is None:
            return
        if device is not None and (type(device) is not int or not 0 <= device < self._devices()):
            self.send({"type": "say", "text": f"There is no device {str(device)[:20]} to pin to."})
            return
        found = members(*self.selected, self.view, self.skeleton, self.plan)
        if not found:
            return
        pins = session.settings.pins
        try:
            chosen = names(found, self.skeleton)
        except InvalidProblem as error:
            self.send({"type": "say", "text": str(error)})
            self.send({"type": "props", "props": {ids.PIN_NOTE: {"children": str(error)}}})
            return
        told = merged(pins, chosen, found, self.skeleton, device)
        self.send({"type": "pins", "pins": told, "words": pin_panel.words(chosen, device, self._names())})

    def _devices(self) -> int:
        return len(self.plan["devices"]) if self.plan is not None else 0

    def _names(self) -> list[str]:
        return [device["name"] for device in self.plan["devices"]] if self.plan is not None else []

    def _inspector(self) -> dict[str, Any]:
        """With the devices that the selection can be pinned to."""
        props = super()._inspector()
        if self.selected is None or self.view is None or self.skeleton is None or self.plan is None:
            return props
        found = members(*self.selected, self.view, self.skeleton, self.plan)
        if found:
            pinned = found <= set(self.plan["pinned"])
            on = {device for i in found for device in self.plan["placement"][i]} if pinned else set()
            props[ids.INSPECTOR]["children"] += pin_panel.choices(self._names(), on)
        return props
