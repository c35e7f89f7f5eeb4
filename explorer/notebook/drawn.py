"""What a widget draws, of whatever plan it is shown, and what a browser says about looking at it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import anywidget
import traitlets

from explorer.notebook.built import built
from explorer.notebook.messages import Message
from explorer.notebook.selection import Selection, pointed_at, selected
from explorer.notebook.showing import Showing
from explorer.notebook.solving import InvalidTrait
from explorer.notebook.still import still_html, still_picture
from explorer.view.figures import Figures
from explorer.view.graph.node_data import read_node_data
from explorer.view.plan_types import PlanView
from solvers.errors import InvalidProblem, PlacementError


class DrawnWidget(anywidget.AnyWidget):
    """Graph, schedule and what is selected. What is asked, and who answers, is its heirs' business: they call
    `_begin_drawing` before there are traits, and set ``_opened`` when these are as they begin."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    _graph = traitlets.Dict().tag(sync=True)
    _overlay = traitlets.Dict().tag(sync=True)
    _plan = traitlets.Dict().tag(sync=True)
    _selected = traitlets.Dict().tag(sync=True)
    _theme = traitlets.Unicode("light").tag(sync=True)
    _mark = traitlets.Unicode().tag(sync=True)
    """Of the picture that is shown wherever the widget is not."""

    selection = traitlets.Any(None, allow_none=True)
    node_data = traitlets.Dict(None, allow_none=True)
    """Numbers on operators or modules, which colour the boxes: {name: number}, or Model Explorer's node data."""

    _opened = False  # until its arguments are checked, a widget has nothing to close

    def _begin_drawing(self, showing: Showing) -> None:
        self._quiet = threading.local()
        self._displayed = False
        self._showing = showing
        self._turn = 0
        self._drawn = -1
        """The turn in which the plan was asked for that is drawn; -1 for none."""
        self._before: Figures | None = None
        """Figures of the plan that the cards tell the changes from."""

    def _pins(self) -> Mapping[str, int]:
        """What is pinned: operators or modules to devices."""
        raise NotImplementedError

    @traitlets.default("_esm")
    def _module(self) -> str:
        return built("widget.js")

    @traitlets.default("_mark")
    def _new_mark(self) -> str:
        return uuid.uuid4().hex

    @traitlets.default("_css")
    def _looks(self) -> str:
        return built("widget.css")

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Traits follow what is known; nobody is asked for it. Observers of other people hear it."""
        before = getattr(self._quiet, "on", False)
        self._quiet.on = True
        try:
            yield
        finally:
            self._quiet.on = before

    @property
    def _settled(self) -> bool:
        """Whether what is assigned in this thread is somebody's wish."""
        return self._opened and not getattr(self._quiet, "on", False)

    def picture(self) -> str:
        """Graph and schedule as the text of an SVG, as they are now, in the widget's theme."""
        return still_picture(self._showing.skeleton, self._showing.plan).svg(self._showing.theme)

    @traitlets.validate("node_data")
    def _check_node_data(self, proposal: Mapping[str, Any]) -> object:
        value = proposal["value"]
        try:
            self._showing.values = read_node_data(value, "node_data")
        except InvalidProblem as error:
            raise InvalidTrait(str(error)) from None
        return value

    @traitlets.observe("node_data")
    def _node_data_given(self, change: Mapping[str, Any]) -> None:
        if change["new"] is None:  # which nobody checks
            self._showing.values = None
        self._overlay = self._showing.overlay()

    # -- in the output of a cell ---------------------------------------------------------------------

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Two outputs: a picture for where no kernel knows the widget (a saved notebook, a web page), and the widget,
        which hides that picture while it is there."""
        from IPython.display import display

        display(self._still(), raw=True, display_id=self._mark)
        self._displayed = True
        view = None if self.comm is None else self._repr_mimebundle_(**kwargs)
        if view is not None:  # not closed
            display(view[0], raw=True, metadata=view[1])

    def _still(self) -> dict[str, str]:
        showing = self._showing
        picture = still_html(showing.skeleton, showing.plan, self._mark, showing.theme)
        return {"text/html": picture, "text/plain": repr(self)}

    def _update_still(self) -> None:
        """The picture shows what the widget does, so that a notebook is saved with the plan."""
        if self._displayed:
            from IPython.display import update_display

            update_display(self._still(), raw=True, display_id=self._mark)

    # -- what is drawn -------------------------------------------------------------------------------

    def _draw_graph(self) -> None:
        with self.hold_sync():
            self._graph = self._showing.graph()
            self._overlay = self._showing.overlay()
            self._draw_selected()

    def _draw_plan(self, view: PlanView | None) -> None:
        self._showing.show_plan(view)
        self._drawn = self._turn if view is not None else -1
        with self.hold_sync():
            self._plan = self._showing.picture(self._before, self._turn)
            self._overlay = self._showing.overlay()
            self._draw_selected()

    def _draw_selected(self) -> None:
        selection = self.selection
        if selection is not None:
            try:
                selection = selected(selection, self._showing.view, self._showing.skeleton, self._showing.plan)
            except InvalidProblem:  # a stage or device that the new plan does not have
                selection = None
            with self._quietly():
                self.selection = selection
        self._selected = self._showing.selected(selection, self._pins())

    # -- what is selected ----------------------------------------------------------------------------

    @traitlets.validate("selection")
    def _check_selection(self, proposal: Mapping[str, Any]) -> Selection | None:
        showing = self._showing
        try:
            return selected(proposal["value"], showing.view, showing.skeleton, showing.plan)
        except PlacementError as error:
            raise InvalidTrait(str(error)) from None

    @traitlets.observe("selection")
    def _selection_changed(self, change: Mapping[str, Any]) -> None:
        self._selected = self._showing.selected(self.selection, self._pins())

    # -- what a browser says -------------------------------------------------------------------------

    def _on_select(self, message: Message) -> None:
        showing = self._showing
        self.selection = pointed_at(message["kind"], message["id"], showing.view, showing.skeleton, showing.plan)

    def _on_expand(self, message: Message) -> None:
        self._showing.expand(message["element"])
        self._draw_graph()

    def _on_collapse(self, message: Message) -> None:
        self._showing.collapse(message["element"])
        self._draw_graph()

    def _on_depth(self, message: Message) -> None:
        self._showing.deepen(message["step"])
        self._draw_graph()

    def _on_canvas(self, message: Message) -> None:
        self._showing.fit(message["width"], message["height"])
        self._draw_graph()

    def _on_peek(self, message: Message) -> None:
        known = self._showing.known(message["element"])
        if known is not None:
            self.send({"type": "peeked", "id": message["element"], "text": known})

    def _on_find(self, message: Message) -> None:
        self.send({"type": "found", "text": message["text"], **self._showing.matches(message["text"])})

    def _on_window(self, message: Message) -> None:
        window = self._showing.window(message["from"], message["to"])
        if window:
            self.send({"type": "bars", **window})

    def _on_view(self, message: Message) -> None:
        look = self._showing.look
        self._showing.look = replace(look, rows=message.get("rows", look.rows), path=message.get("path", look.path))
        self._plan = self._showing.picture(self._before, self._turn)

    def _on_course(self, message: Message) -> None:
        self.send({"type": "course", **self._showing.course()})

    def _on_waits(self, message: Message) -> None:
        if (device := message["device"]) is not None:
            self.send({"type": "waits", **self._showing.waits(device, message["at_s"])})

    def _on_theme(self, message: Message) -> None:
        self._theme = self._showing.theme = message["theme"]
        with self.hold_sync():
            self._draw_graph()
            self._plan = self._showing.picture(self._before, self._turn)
