/* Running a plan: the tab, the clock while it goes on, and what its run can be drawn as. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const TICK_MS = 500;
  let measured = false;
  let times = "both"; /* whose are drawn */
  let wanted = "devices"; /* what the boxes are coloured by */
  let clock = null; /* when the run began, by this page's clock */

  /* Where the keyboard is after the tab was opened from the rail. */
  function arrive() {
    setTimeout(function () {
      const start = document.getElementById("run-start");
      const wanted = start.disabled ? document.getElementById("run-steps") : start;
      wanted.focus();
    }, 60);
  }

  function draw(message) {
    document.body.dataset.run = message.state;
    document.getElementById("run-replan").hidden = !message.can_replan;
    clock = message.elapsed_s === undefined ? null : performance.now() - message.elapsed_s * 1000;
    wanted = message.colour;
    show(message.times);
  }

  /* Whether the plan that is drawn has run: then there is something to lay over it. */
  function lay(is) {
    measured = is;
    for (const id of ["gantt-which", "graph-colour"]) document.getElementById(id).hidden = !is;
    document.body.classList.toggle("has-run", is);
    colour(wanted);
  }

  function show(which) {
    times = which;
    ex.looks.press("gantt-which", times);
    colour(wanted);
  }

  function colour(by) {
    wanted = by;
    const errors = measured && wanted === "errors";
    document.getElementById("graph-colour").setAttribute("aria-pressed", String(errors));
    document.getElementById("error-legend").hidden = !errors;
    document.body.classList.toggle("overlaid", measured && times !== "predicted");
    ex.graph.colourBy(errors);
  }

  function tick() {
    const shown = document.querySelector(".run-clock");
    if (shown && clock !== null) shown.textContent = Math.round((performance.now() - clock) / 1000) + " s";
  }

  function copy(button) {
    const copied = (words) => {
      const before = button.textContent;
      if (before !== "Copy") return;
      button.textContent = words;
      setTimeout(function () { button.textContent = "Copy"; }, 1600);
    };
    if (!navigator.clipboard) { select(button); return; }
    navigator.clipboard.writeText(button.dataset.copy).then(() => copied("Copied"), () => select(button));
  }

  /* Where there is no clipboard, the words are selected to be copied by hand. */
  function select(button) {
    const range = document.createRange();
    range.selectNodeContents(button.parentElement.querySelector("code"));
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  function listen() {
    setInterval(tick, TICK_MS);
    document.addEventListener("click", function (event) {
      const button = event.target.closest && event.target.closest("[data-copy]");
      if (button) copy(button);
    });
  }

  ex.runs = { arrive, draw, lay, show, colour, listen };
})();
