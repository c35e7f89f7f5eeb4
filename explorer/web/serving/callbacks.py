"""The page's callbacks. All run in the browser (assets/controls.js); the server is asked over the
websocket. Registered on the app that is given, never globally."""

from __future__ import annotations

from dash import ClientsideFunction, Dash, Input, Output, State

from explorer.question.settings import declared
from explorer.question.written.declaring import SWITCH
from explorer.web.contract import ids

CONTROLS = [one.control for one in declared() if one.control is not None]


def register(app: Dash) -> None:
    """Connect the controls of ``app``'s layout."""
    app.clientside_callback(
        ClientsideFunction("explorer", "controls"),
        Output(ids.SESSION, "data"),
        Output(ids.DEVICES_VALUE, "children"),
        Output(ids.MEMORY_FIELD, "value"),
        Output(ids.GUARANTEE, "children"),
        *(Input(one.id, "checked" if one.shape == SWITCH else "value") for one in CONTROLS),
        *(Input(control, "value") for control in (ids.MODEL, ids.KIND_TWO, ids.KIND_TWO_COUNT)),
        Input(ids.LIVE, "checked"),
        State(ids.CATALOGUE, "data"),
        State(ids.MEMORY, "max"),
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "kind"),
        Output(ids.MEMORY, "max"),
        Output(ids.MEMORY, "value"),
        Input(ids.KIND, "value"),
        State(ids.MEMORY, "value"),
        State(ids.MEMORY, "max"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "memoryField"),
        Output(ids.MEMORY_FIELD, "error"),
        Input(ids.MEMORY_FIELD, "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "solve"), Input(ids.SOLVE, "n_clicks"), prevent_initial_call=True
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "cancel"), Input(ids.CANCEL, "n_clicks"), prevent_initial_call=True
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "compare"),
        Input(ids.COMPARE, "n_clicks"),
        State(ids.COMPARE_EVERY, "checked"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "stopComparing"), Input(ids.COMPARE_STOP, "n_clicks"), prevent_initial_call=True
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "openRun"),
        Output(ids.TABS, "value"),
        Input(ids.RUN_OPEN, "n_clicks"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "run"),
        Input(ids.RUN_START, "n_clicks"),
        State(ids.RUN_TARGET, "value"),
        State(ids.RUN_STEPS, "value"),
        State(ids.RUN_VERIFY, "checked"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "cancelRun"), Input(ids.RUN_STOP, "n_clicks"), prevent_initial_call=True
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "runTarget"), Input(ids.RUN_TARGET, "value"), prevent_initial_call=True
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "theme"),
        Output(ids.CHOSEN_THEME, "data"),
        Input(ids.THEME, "n_clicks"),
        State(ids.CHOSEN_THEME, "data"),
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "share"),
        Output(ids.SHARE, "children"),
        Input(ids.SHARE, "n_clicks"),
        prevent_initial_call=True,
    )
    app.clientside_callback(ClientsideFunction("explorer", "tab"), Input(ids.TABS, "value"))
