/* Time on the page: its controls and its line, over its schedule. */
(function () {
  "use strict";
  const ex = window.explorer;
  const byId = (id) => document.getElementById(id);

  /* What is drawn has run, and has no course. */
  const measured = () => byId("gantt-which").closest("[hidden]") === null && byId("gantt-which").querySelector('[data-value="measured"][aria-pressed="true"]') !== null;

  const clock = ex.clock = ex.clockOf({
    part: (name) => byId(name ? "clock-" + name : "clock"),
    chart: { sight: () => ex.gantt.sight(), look: (from, to) => ex.gantt.look(from, to), under: (x, y) => ex.gantt.under(x, y) },
    frame: () => document.querySelector(".gantt-card .canvas"),
    cursor: ex.cursorOf({ box: () => byId("cursor"), memory: () => byId("memory-cards"), timed: () => document.body }),
    send: (message) => ex.send(message),
    playable: () => ex.gantt.sight() !== null && !["infeasible", "none"].includes(document.body.dataset.state) && !measured(),
    release: () => ex.graph.select(null),
  });

  ex.on.course = function (message) { clock.take(message.course, message.words); };

  ex.on.waits = function (message) {
    ex.gantt.showWait(message);
    clock.say(message.text);
    requestAnimationFrame(() => requestAnimationFrame(() => byId("inspector").scrollIntoView({ block: "nearest" })));
  };

  document.addEventListener("keydown", clock.keys);
})();
