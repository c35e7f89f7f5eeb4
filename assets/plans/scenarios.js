/* Kept plans: what the controls said when each was kept, so that Show asks the same again. And what a link promised. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const snapshots = {};
  let promised = new URLSearchParams(location.search).get("plan");

  function store(message) { snapshots[message.number] = ex.snapshot(); }

  function moved(message) {
    ex.gantt.release();
    ex.graph.highlight(new Set(message.boxes), null);
  }

  /* After the first answer to a link: is it the plan that the link was made of? */
  function answered(message) {
    if (!promised || ex.BUSY.includes(message.state)) return;
    ex.send({ type: "same", plan: promised });
    promised = null;
  }

  function same(message) {
    const note = document.getElementById("same-plan");
    note.hidden = false;
    note.textContent = message.same ? "same plan as in the link" : "not the link's plan";
    note.classList.toggle("bad", !message.same);
    note.title = message.same ? "Its hash is " + message.found : "The link was made of plan " + message.wanted + "; this is " + message.found
      + ". Another version or machine, or a search that its time limit ended, may answer otherwise.";
    document.getElementById("announcer").textContent = note.textContent;
  }

  /* Another question: what was said of the link's plan no longer holds. */
  function unlink() { document.getElementById("same-plan").hidden = true; }

  function shared(message) {
    const link = new URL(location.href);
    if (message.plan) link.searchParams.set("plan", message.plan);
    const setLabel = (words) => {
      window.dash_clientside.set_props("share", { children: words });
      setTimeout(() => window.dash_clientside.set_props("share", { children: "Copy link" }), 1600);
    };
    window.__pe_shared = link.href;
    if (!navigator.clipboard) { ex.steps.replace(link.search); setLabel("In the address bar"); return; }
    navigator.clipboard.writeText(link.href).then(() => setLabel("Copied"), () => { ex.steps.replace(link.search); setLabel("In the address bar"); });
  }

  function listen() {
    document.addEventListener("click", function (event) {
      const button = event.target.closest && event.target.closest('[data-act="show-kept"]');
      if (button && snapshots[button.dataset.arg]) ex.steps.restore(snapshots[button.dataset.arg]);
    });
    const named = function (event) {
      const field = event.target;
      if (!field.classList || !field.classList.contains("scenario-name")) return;
      ex.send({ type: "rename", element: field.id.replace("scenario-", ""), name: field.textContent });
    };
    document.addEventListener("focusout", named);
    document.addEventListener("keydown", function (event) {
      if (!event.target.classList || !event.target.classList.contains("scenario-name") || !["Enter", "Escape"].includes(event.key)) return;
      event.preventDefault();
      event.target.blur();
    });
  }

  ex.scenarios = { store, moved, answered, same, unlink, shared, listen };
})();
