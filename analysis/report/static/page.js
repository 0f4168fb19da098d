"use strict";

(async () => {
  await openPage();
  document.querySelectorAll("nav button").forEach((button) => {
    page.places.set(button.dataset.name, Number(button.dataset.layering));
    button.addEventListener("click", () => {
      const layering = Number(button.dataset.layering);
      const isHidden = !page.hidden.delete(layering) && Boolean(page.hidden.add(layering));
      button.setAttribute("aria-pressed", String(!isHidden));
      for (const own of document.querySelectorAll(`[data-panel="${layering}"]`)) own.hidden = isHidden;
      offerShown();
      drawAll();
    });
  });
  drawAll();
  const others = [];
  if (page.data.network) others.push(setUpNetwork(page.data.network));
  if (page.data.journeys) others.push(setUpJourney(page.data.journeys));
  if (page.data.names) others.push(setUpNames(page.data.names));
  addEventListener("beforeprint", () => {
    root.dataset.theme = "light";
    page.plots.forEach((plot) => draw(plot, plot.isSmall ? PRINT_WIDTH / 2 - 16 : PRINT_WIDTH));
    others.forEach((show) => show());
  });
  addEventListener("afterprint", () => {
    delete root.dataset.theme;
    drawAll();
    others.forEach((show) => show());
  });
  root.dataset.ready = "true";
})();
