/* How a plan is drawn: boxes of the graph, rows of the schedule. Kept in the link and sent to the server. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const KEYS = ["graph", "rows", "pair", "link_rows", "path"];
  let wanted = "operators";
  let drawable = true; /* whether the plan's stages are few enough to draw */
  const card = () => document.querySelector(".graph-card");

  function press(group, value) {
    for (const button of document.querySelectorAll("#" + group + " button")) {
      button.setAttribute("aria-pressed", String(button.dataset.value === value));
    }
  }

  function graph(kind) {
    wanted = kind;
    const shown = drawable ? kind : "operators";
    card().dataset.graph = shown;
    press("graph-kind", shown);
    ex.stages.redraw();
  }

  /* A plan with a stage an operator has no picture of stages that says more than that of operators. */
  function stages(can, note) {
    const button = document.querySelector('#graph-kind [data-value="stages"]');
    button.disabled = !can;
    button.title = can ? "" : note + ": too many to draw; the operators show where they run";
    if (drawable === can) return;
    drawable = can;
    graph(wanted);
  }

  /* Which rows the server chose, and whether stages and links can be rows at all. */
  function rows(shown) {
    press("gantt-rows", shown.kind);
    const button = document.querySelector('#gantt-rows [data-value="stages"]');
    button.disabled = !shown.can;
    button.title = shown.can ? "" : "There are too many stages for a row each";
    for (const part of [document.getElementById("gantt-rows"), document.querySelector(".rows-label")]) part.hidden = !shown.can;
    const links = document.getElementById("gantt-links");
    links.disabled = !shown.can_link;
    links.setAttribute("aria-pressed", String(shown.links));
    document.getElementById("gantt-path").setAttribute("aria-pressed", String(shown.path));
  }

  function send() {
    const given = new URLSearchParams(location.search);
    const message = { type: "view" };
    for (const key of KEYS) if (given.get(key)) message[key] = given.get(key);
    if (!message.graph) message.graph = wanted;
    graph(message.graph === "stages" ? "stages" : "operators");
    ex.send(message);
  }

  /* All of it at once, as a lesson says it or as it was before one. */
  function put(look) {
    graph(look.graph);
    ex.gantt.showPath(look.path === true);
    ex.send({ type: "view", ...look });
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
    onChoice("gantt-which", function (times) {
      ex.runs.show(times);
      ex.send({ type: "view", times: times });
    });
    document.getElementById("graph-colour").addEventListener("click", function (event) {
      const colour = event.currentTarget.getAttribute("aria-pressed") === "true" ? "devices" : "errors";
      ex.runs.colour(colour);
      ex.send({ type: "view", colour: colour });
    });
    document.getElementById("gantt-links").addEventListener("click", function (event) {
      const on = event.currentTarget.getAttribute("aria-pressed") !== "true";
      event.currentTarget.setAttribute("aria-pressed", String(on));
      ex.send({ type: "view", link_rows: on ? "on" : "off" });
    });
    document.getElementById("gantt-path").addEventListener("click", function (event) {
      const on = event.currentTarget.getAttribute("aria-pressed") !== "true";
      event.currentTarget.setAttribute("aria-pressed", String(on));
      ex.gantt.showPath(on);
      ex.send({ type: "view", path: on });
    });
  }

  ex.looks = { KEYS, press, rows, stages, send, put, listen };
})();
