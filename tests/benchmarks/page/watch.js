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
    const plot = document.getElementById("gantt");
    if (document.getElementById("solve")) told("controls");
    if (graph && graph._cyreg && graph._cyreg.cy.nodes().length > 3) told("graph");
    if (plot && plot.data && plot.data.length && plot._fullLayout) {
      /* painted, and free for a click */
      requestAnimationFrame(() => setTimeout(() => told("bars"), 0));
      return;
    }
    setTimeout(look, 2);
  })();
})();
