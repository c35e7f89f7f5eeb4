/* When the parts of the page are first there, in milliseconds after navigation; as marks too, which traces give CPU for. */
window.__first = {};
(function () {
  const first = window.__first;
  const told = (name) => {
    if (name in first) return;
    first[name] = performance.now();
    performance.mark("first " + name);
  };
  told("begin");
  (function look() {
    const graph = document.getElementById("graph");
    const drawn = window.explorer && window.explorer.gantt ? window.explorer.gantt.drawn() : null;
    if (document.getElementById("solve")) told("controls");
    if (graph && graph._cyreg && graph._cyreg.cy.nodes().length > 3) told("graph");
    if (drawn && drawn.pieces) {
      /* painted, and free for a click */
      requestAnimationFrame(() => setTimeout(() => told("bars"), 0));
      return;
    }
    setTimeout(look, 2);
  })();
})();
