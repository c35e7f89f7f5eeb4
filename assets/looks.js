/* How a plan is drawn: boxes of the graph, rows of the schedule. Kept in the link; the server is told. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const KEYS = ["graph", "rows", "pair"];
  const card = () => document.querySelector(".graph-card");

  function press(group, value) {
    for (const button of document.querySelectorAll("#" + group + " button")) {
      button.setAttribute("aria-pressed", String(button.dataset.value === value));
    }
  }

  function graph(kind) {
    card().dataset.graph = kind;
    press("graph-kind", kind);
    ex.stages.redraw();
  }

  /* Which rows the server chose, and whether stages can be rows at all. */
  function rows(told) {
    press("gantt-rows", told.kind);
    document.querySelector('#gantt-rows [data-value="stages"]').disabled = !told.can;
  }

  function tell() {
    const given = new URLSearchParams(location.search);
    const message = { type: "view" };
    for (const key of KEYS) if (given.get(key)) message[key] = given.get(key);
    if (!message.graph) message.graph = card().dataset.graph;
    graph(message.graph === "stages" ? "stages" : "operators");
    ex.send(message);
  }

  function listen() {
    const onChoice = (group, act) =>
      document.getElementById(group).addEventListener("click", function (event) {
        const button = event.target.closest("[data-value]");
        if (button && button.getAttribute("aria-pressed") !== "true") act(button.dataset.value);
      });
    onChoice("graph-kind", function (kind) {
      graph(kind);
      ex.send({ type: "view", graph: kind });
    });
    onChoice("gantt-rows", function (kind) {
      press("gantt-rows", kind);
      ex.send({ type: "view", rows: kind });
    });
  }

  ex.looks = { KEYS, rows, tell, listen };
})();
