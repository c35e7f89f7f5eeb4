/* The bar between graph and schedule: drag it, or move it with the arrow keys. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const KEPT = "explorer-split";

  function put(share) {
    const bar = document.querySelector(".split");
    const kept = Math.min(75, Math.max(20, share));
    bar.parentElement.style.setProperty("--split", kept + "%");
    bar.setAttribute("aria-valuenow", Math.round(kept));
    localStorage.setItem(KEPT, kept);
  }

  ex.split = {
    listen: function () {
      const bar = document.querySelector(".split");
      const now = () => +bar.getAttribute("aria-valuenow");
      if (localStorage.getItem(KEPT)) put(+localStorage.getItem(KEPT));
      bar.addEventListener("pointerdown", function (event) {
        bar.setPointerCapture(event.pointerId);
        event.preventDefault();
      });
      bar.addEventListener("pointermove", function (event) {
        if (!bar.hasPointerCapture(event.pointerId)) return;
        const frame = bar.parentElement.getBoundingClientRect();
        put((100 * (event.clientX - frame.left)) / frame.width);
      });
      bar.addEventListener("keydown", function (event) {
        const by = { ArrowLeft: -3, ArrowRight: 3 }[event.key];
        if (!by) return;
        put(now() + by);
        event.preventDefault();
      });
    },
  };
})();
