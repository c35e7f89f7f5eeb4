/* Before printing: how wide the middle of the page is and how high its pictures are, which are not drawn again for paper. */
(function () {
  "use strict";
  const PAPER_PX = 1040; /* of A4 across, without margins */
  const RIGHT_PX = 276;

  window.addEventListener("beforeprint", function () {
    const centre = document.querySelector(".centre");
    const views = document.querySelector(".views");
    if (!centre || !views) return;
    const style = document.documentElement.style;
    style.setProperty("--print-centre", centre.offsetWidth + "px");
    style.setProperty("--print-views", views.offsetHeight + "px");
    style.setProperty("--print-zoom", (PAPER_PX / (centre.offsetWidth + RIGHT_PX)).toFixed(3));
  });
})();
