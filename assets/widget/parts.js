/* What the page keeps on its window, here kept by the module: nothing of it is seen from outside. */
export const explorerParts = {
  /* What the page waits for is there from the start in a widget, or gone for good. */
  whenReady(test, then) {
    const ready = test();
    if (ready) then(ready);
  },
};
