/* Every settled change is a step of the browser's history: Back undoes it, and so do the buttons. A whole drag is one. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const MERGE_MS = 1200; /* after a gesture, what still comes of it */
  const TOP = "explorer-steps";
  const TYPED = "input:not([type=range], [type=radio], [type=checkbox]), textarea, [contenteditable]"; /* these undo what is typed */
  let gesture = 0;
  let pushed = -1;
  let down = false;
  let lastly = -1e9; /* when the pointer was released, or a key was pressed */
  let keyTarget = null;
  let restoring = 0;

  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const at = () => (history.state && Number.isInteger(history.state.step) ? history.state.step : 0);
  const top = () => Math.max(at(), +(sessionStorage.getItem(TOP) || 0));

  function buttons() {
    window.dash_clientside.set_props("undo", { disabled: at() <= 0 });
    window.dash_clientside.set_props("redo", { disabled: at() >= top() });
  }

  /* The gesture that a change of a control made now belongs to; 0 is none. */
  const current = () => (down || performance.now() - lastly < MERGE_MS ? gesture : 0);

  /* A question stands in the address: is it another step, or the same one? now: all that the controls say. of: the
     gesture that made it, by the time of the change: the answer may come long after the pointer was released. */
  function settle(query, now, of) {
    const state = history.state;
    query = ex.lessons.address(query);
    if (!state || !state.now) history.replaceState({ step: at(), now: now }, "", query);
    else if (same(state.now, now)) history.replaceState(state, "", query);
    else if (of && of === pushed) history.replaceState({ step: at(), now: now }, "", query);
    else {
      const step = at() + 1;
      history.pushState({ step: step, now: now }, "", query);
      sessionStorage.setItem(TOP, step);
    }
    pushed = of;
    buttons();
  }

  const replace = (query) => history.replaceState(history.state, "", ex.lessons.address(query));

  /* The controls as they were. What differs is set, and one question asked when all have come to rest. */
  function restore(was) {
    const now = ex.snapshot();
    if (!now || !was || !was.controls) return;
    restoring = performance.now() + 700;
    ex.askOnce();
    const put = (id, value) => id === "devices" ? ex.setDevices(value) : window.dash_clientside.set_props(id, { [ex.settings.some((one) => one.id === id && one.prop === "checked") ? "checked" : "value"]: value });
    const memory = function () {
      ex.exactCap = was.cap || null;
      window.dash_clientside.set_props("memory", { max: was.top, value: was.controls.memory });
    };
    ex.restoreFiles(was.files || {}, was.pins || ex.pins.NOTHING, was.fleet || null);
    for (const id of Object.keys(was.controls)) if (id !== "memory" && !same(was.controls[id], now.controls[id])) put(id, was.controls[id]);
    if (!same(was.controls.memory, now.controls.memory) || was.top !== now.top || was.controls.kind !== now.controls.kind) {
      memory();
      setTimeout(memory, 90); /* another kind of device brings its own range */
    }
  }

  function listen() {
    document.addEventListener("pointerdown", function () { gesture++; down = true; }, true);
    for (const name of ["pointerup", "pointercancel"]) {
      document.addEventListener(name, function () { down = false; lastly = performance.now(); }, true);
    }
    document.addEventListener("keydown", function (event) {
      const now = performance.now();
      const undo = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z";
      const typing = event.target.closest && event.target.closest(TYPED);
      if (undo && !typing) {
        event.preventDefault();
        if (event.shiftKey ? at() < top() : at() > 0) history.go(event.shiftKey ? 1 : -1);
        return;
      }
      const named = event.target.closest ? event.target.closest("[id]") : null; /* a thumb is made again as it moves */
      const target = named ? named.id : "";
      if (target !== keyTarget || now - lastly > MERGE_MS) gesture++;
      keyTarget = target;
      lastly = now;
    }, true);
    window.addEventListener("popstate", function (event) {
      if (event.state && event.state.now) restore(event.state.now);
      buttons();
    });
    document.getElementById("undo").addEventListener("click", () => { if (at() > 0) history.back(); });
    document.getElementById("redo").addEventListener("click", () => { if (at() < top()) history.forward(); });
    buttons();
  }

  ex.stepping = () => performance.now() < restoring;
  ex.steps = { current, settle, replace, restore, listen };
})();
