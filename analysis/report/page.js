"use strict";

const PRINT_WIDTH = 680; // A4 and Letter within their margins, CSS pixels
const plots = [...document.querySelectorAll(".plot")].map((element) => ({
  element,
  isSmall: element.closest(".multiples") !== null,
  spec: JSON.parse(element.querySelector("script").textContent),
}));
const hidden = new Set();

/* Put the page's colours in the place of their names. */
function coloured(value, style) {
  if (typeof value === "string") {
    return value.startsWith("--") ? style.getPropertyValue(value).trim() : value;
  }
  if (Array.isArray(value)) {
    return typeof value[0] === "number" ? value : value.map((item) => coloured(item, style));
  }
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, style)]));
  }
  return value;
}

function axis(own, style) {
  const common = {
    gridcolor: "--grid", linecolor: "--rule", zerolinecolor: "--rule", tickcolor: "--rule",
    automargin: true, separatethousands: true, fixedrange: false,
  };
  return coloured({ ...common, ...own, title: { font: { size: 13 }, standoff: 8, ...own?.title } }, style);
}

function draw(plot, width) {
  const style = getComputedStyle(document.documentElement);
  const own = plot.spec.layout;
  const layout = {
    autosize: width === undefined,
    width,
    height: plot.isSmall ? 130 : 340,
    margin: plot.isSmall ? { l: 34, r: 6, t: 6, b: 22 } : { l: 60, r: 16, t: 12, b: 48 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: {
      family: getComputedStyle(document.body).fontFamily,
      size: plot.isSmall ? 11 : 13,
      color: style.getPropertyValue("--ink").trim(),
    },
    hoverlabel: { namelength: -1 },
    hovermode: "closest",
    showlegend: false,
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal" },
    modebar: {
      bgcolor: "rgba(0,0,0,0)",
      color: style.getPropertyValue("--rule").trim(),
      activecolor: style.getPropertyValue("--faint").trim(),
    },
    dragmode: "zoom",
    ...coloured(own, style),
    xaxis: axis({ nticks: plot.isSmall ? 4 : undefined, ...own.xaxis }, style),
    yaxis: axis({ nticks: plot.isSmall ? 4 : undefined, ...own.yaxis }, style),
  };
  const data = plot.spec.data.map((trace) => ({
    ...coloured(trace, style),
    visible: !hidden.has(trace.meta),
  }));
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: plot.isSmall ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  plot.element.querySelector("script")?.remove();
  return Plotly.react(plot.element, data, layout, config);
}

function drawAll() {
  plots.forEach((plot) => draw(plot));
}

document.querySelectorAll("nav button").forEach((button) => {
  button.addEventListener("click", () => {
    const layering = Number(button.dataset.layering);
    const isHidden = !hidden.delete(layering) && Boolean(hidden.add(layering));
    button.setAttribute("aria-pressed", String(!isHidden));
    drawAll();
  });
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  plots.forEach((plot) => draw(plot, plot.isSmall ? PRINT_WIDTH / 3 - 16 : PRINT_WIDTH));
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.theme;
  drawAll();
});
drawAll();
