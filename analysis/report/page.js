"use strict";

(async () => {
  let script;
  try {
    [script, page.data] = [await unpack("plotly"), JSON.parse(await unpack("data"))];
  } catch (error) {
    document.getElementById("failed").hidden = false;
    throw error;
  }
  document.head.append(Object.assign(document.createElement("script"), { textContent: script }));
  page.plots = [...document.querySelectorAll(".plot")].map((element) => ({
    element,
    isSmall: element.closest(".multiples") !== null,
    spec: page.data.figures[element.id],
    menus: [...document.querySelectorAll(`select[data-plot="${element.id}"]`)],
  }));
  const drawAll = () => page.plots.forEach((plot) => draw(plot));

  document.querySelectorAll("nav button").forEach((button) => {
    button.addEventListener("click", () => {
      const layering = Number(button.dataset.layering);
      const isHidden = !page.hidden.delete(layering) && Boolean(page.hidden.add(layering));
      button.setAttribute("aria-pressed", String(!isHidden));
      drawAll();
    });
  });
  for (const plot of page.plots) {
    for (const menu of plot.menus) menu.addEventListener("change", () => draw(plot));
  }
  document.querySelectorAll("button[data-save]").forEach((button) => {
    button.addEventListener("click", () => save(button));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
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
