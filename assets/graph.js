/* The operator graph of the page: boxes.js on the instance that dash-cytoscape made. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  let boxes = null;

  /* The drawing's script comes after this one. */
  const graph = () => (boxes = boxes || ex.boxes({
    instance: () => { const box = document.getElementById("graph"); return box && box._cyreg && box._cyreg.cy; },
    root: () => document.documentElement,
    selected: (id) => ex.send({ type: "select", kind: id ? "box" : "none", id: id || "" }),
    hovered: (keys) => ex.gantt.showKeys(keys),
    expanded: (id) => ex.send({ type: "expand", element: id }),
    released: () => ex.gantt.release(),
    peeked: (id) => ex.send({ type: "peek", element: id }),
  }));

  ex.graph = {};
  for (const act of ["draw", "overlay", "colourBy", "fit", "highlight", "byDevice", "showStage", "showKey", "select", "reveal", "centre",
    "clear", "selection", "bright", "repaint", "peeked", "values"]) {
    ex.graph[act] = (...given) => graph()[act](...given);
  }
  /* Finding among the page's operators; the DAG of stages has none. */
  let finder = null;
  const finding = () => (finder = finder || ex.finder({
    frame: () => document.querySelector(".graph-card .canvases"),
    focused: () => document.querySelector(".graph-card .canvas"),
    send: (message) => ex.send(message),
    before: function () {
      const operators = document.querySelector('#graph-kind [data-value="operators"]');
      if (operators.getAttribute("aria-pressed") !== "true") operators.click();
    },
    pick: (box) => ex.graph.reveal(box),
  }));

  ex.find = {
    draw: (message) => finding().draw(message),
    listen: function () {
      document.getElementById("find").addEventListener("click", () => finding().open());
      document.addEventListener("keydown", function (event) {
        const within = event.target.closest && event.target.closest("input, textarea, select, dialog, [contenteditable]");
        if (event.key !== "/" || within || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        finding().open();
      });
    },
  };
  ex.graph.listen = function () {
    graph().listen(document.querySelector(".graph-card .canvas"));
    /* Escape deselects wherever the focus is, but where one writes or something else is to be closed. */
    document.addEventListener("keydown", function (event) {
      const within = event.target.closest && event.target.closest("input:not([type=range]):not([type=radio]):not([type=checkbox]), textarea, select, dialog, .find, [role=menu], [contenteditable]");
      if (event.key !== "Escape" || event.defaultPrevented || within || document.querySelector("dialog[open]")) return;
      ex.graph.select(null);
      ex.gantt.release();
    });
  };
})();
