"use strict";

const PRINT_WIDTH = 680; // A4 and Letter within their margins, CSS pixels
const root = document.documentElement;
const page = { data: null, plots: [], hidden: new Set(), places: new Map() };

/* Decompress what a script element holds: gzip in base64. */
async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/* Put the page's colours in the place of their names. */
function coloured(value, style) {
  if (value === "--heat") {
    return [0, 1, 2, 3].map((step) => [step / 3, style.getPropertyValue(`--heat-${step}`).trim()]);
  }
  if (typeof value === "string") {
    // A soft colour is a layering's, a quarter as opaque.
    if (!value.startsWith("--")) return value;
    return value.endsWith("-soft") ? `${coloured(value.slice(0, -5), style)}3a` : style.getPropertyValue(value).trim();
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

/* The options that are chosen in a plot's menus, joined as in spec.variants. */
function chosen(plot) {
  return plot.menus.map((menu) => menu.value).join("|");
}

function shown(plot) {
  return plot.spec.variants?.[chosen(plot)] ?? plot.spec;
}

/* Whether a layering is hidden, by its name. */
function isHidden(name) {
  return page.hidden.has(page.places.get(name));
}

/* A trace without what hidden layerings have in it, where an axis has a layering at each place. */
function withoutHidden(trace, axis) {
  const names = axis === undefined ? undefined : trace[axis];
  if (names === undefined || !names.some(isHidden)) return trace;
  return Object.fromEntries(Object.entries(trace).map(([key, values]) => [
    key, Array.isArray(values) && values.length === names.length ? values.filter((_, at) => !isHidden(names[at])) : values,
  ]));
}

/* What Plotly draws, in the colours that hold now. */
function composed(plot, width) {
  const style = getComputedStyle(root);
  const { data, layout: own } = shown(plot);
  const narrow = (width ?? plot.element.clientWidth) < 520;
  const alone = width !== undefined && !plot.isSmall && data.some((trace) => trace.meta !== undefined);
  const layout = {
    autosize: width === undefined,
    width,
    height: plot.isSmall ? 210 : 340,
    margin: { l: narrow || plot.isSmall ? 46 : 60, r: plot.isSmall ? 8 : 16, t: 12, b: plot.isSmall ? 40 : 48 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: {
      family: getComputedStyle(document.body).fontFamily,
      size: plot.isSmall || narrow ? 11 : 13,
      color: style.getPropertyValue("--ink").trim(),
    },
    hoverlabel: { namelength: -1 },
    hovermode: "closest",
    showlegend: false,
    modebar: {
      bgcolor: "rgba(0,0,0,0)",
      color: style.getPropertyValue("--faint").trim(),
      activecolor: style.getPropertyValue("--ink").trim(),
    },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    ...coloured(own, style),
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal" },
    // On paper and in a file of its own a plot is far from the page's buttons, which tell the layerings apart.
    ...(alone ? { showlegend: true } : {}),
    xaxis: axis({ nticks: narrow || plot.isSmall ? 6 : undefined, ...own.xaxis }, style),
    yaxis: axis({ nticks: plot.isSmall ? 5 : undefined, ...own.yaxis }, style),
  };
  const isGone = plot.menus.some((menu) => menu.dataset.layerings !== undefined && isHidden(menu.value));
  return {
    data: data.map((trace) => ({
      ...coloured(withoutHidden(trace, plot.spec.by), style), visible: !isGone && !page.hidden.has(trace.meta),
    })),
    layout,
  };
}

function draw(plot, width) {
  const { data, layout } = composed(plot, width);
  plot.element.style.height = `${layout.height}px`; // Plotly forgets the layout's when the window changes its size
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: plot.isSmall ? false : "hover",
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d"]],
  };
  return Plotly.react(plot.element, data, layout, config);
}

/* Do something in the colours of the light theme, which is what paper and a publication want. */
function inLight(task) {
  const before = root.dataset.theme;
  root.dataset.theme = "light";
  const result = task();
  if (before === undefined) delete root.dataset.theme;
  else root.dataset.theme = before;
  return result;
}

/* The rows that a trace holds, its name first where it has one of its own. */
function traceRows(trace) {
  const at = (values, place) => (values === undefined ? "" : values[place]);
  if (trace.type === "heatmap") {
    return trace.y.flatMap((y, row) => trace.x.map((x, column) => [y, x, trace.z[row][column]]));
  }
  if (trace.type === "box") {
    const names = trace.orientation === "h" ? trace.y : trace.x;
    const fences = ["lowerfence", "q1", "median", "q3", "upperfence"];
    return names.map((name, place) => [trace.name, name, ...fences.map((key) => at(trace[key], place))]);
  }
  if (trace.orientation === "h") {
    return trace.y.map((y, place) => [trace.name, y, trace.x[place], ...(trace.customdata?.[place] ?? [])]);
  }
  return Array.from(trace.x, (x, place) => [trace.name, x, trace.y[place], ...(trace.customdata?.[place] ?? [])]);
}

function plotRows(plot) {
  const { variants, columns } = plot.spec;
  const rows = Object.entries(variants ?? { "": plot.spec }).flatMap(([key, { data }]) =>
    data.filter((trace) => trace.hoverinfo !== "skip").flatMap((trace) =>
      traceRows(trace).map((row) => [...(variants ? key.split("|") : []), ...row])));
  return [columns, ...rows];
}

function tableRows(table) {
  const text = (cell) => {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll("svg, .tools").forEach((extra) => extra.remove());
    copy.querySelectorAll(".unit, small").forEach((extra) => extra.prepend(", "));
    // Numbers for programs: no thin spaces between thousands, no dash for what is unknown.
    return copy.textContent.trim().replace(/\s+/g, " ").replaceAll(" , ", ", ").replace(/(?<=\d)[\u202f\u00a0 ](?=\d{3}\b)/g, "")
      .replace(/[\u202f\u00a0]/g, " ").replace(/^–$/, "");
  };
  return [...table.rows].filter((row) => !row.classList.contains("group")).map((row) => [...row.cells].map(text));
}

function csvText(rows) {
  const field = (value) => {
    // A label's line break is markup; in a file it is a space.
    const text = value === null || value === undefined ? "" : String(value).replaceAll("<br>", " ");
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

/* An SVG drawing of the page as a file of its own: what styles say of it goes with it. */
function svgText(drawing) {
  const kept = [
    "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "paint-order", "opacity",
    "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "stroke-linejoin",
  ];
  return inLight(() => {
    const copy = drawing.cloneNode(true);
    const originals = [drawing, ...drawing.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((element, place) => {
      const style = getComputedStyle(originals[place]);
      if (!(element instanceof SVGElement)) return;
      kept.forEach((name) => element.style.setProperty(name, style.getPropertyValue(name)));
      element.removeAttribute("tabindex");
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return new XMLSerializer().serializeToString(copy);
  });
}

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

const ownRows = {}; // of figures that are not Plotly's: functions by name

async function save(button) {
  const { save: kind, of: name, table } = button.dataset;
  const base = `${document.body.dataset.name}-${name ?? table}`;
  const plot = page.plots.find((item) => item.element.id === name);
  if (kind === "csv") {
    const rows = table ? tableRows(document.getElementById(`table-${table}`))
      : plot ? plotRows(plot) : ownRows[name]();
    download(`${base}.csv`, "text/csv", csvText(rows));
  } else if (plot) {
    const width = Math.max(plot.element.clientWidth, 640);
    const figure = inLight(() => composed(plot, width));
    const choice = chosen(plot).replace(/[^\w-]+/g, "-");
    const url = await Plotly.toImage(figure, { format: "svg", width, height: figure.layout.height });
    download(`${base}${choice && "-"}${choice}.svg`, "image/svg+xml", decodeURIComponent(url.slice(url.indexOf(",") + 1)));
  } else {
    download(`${base}.svg`, "image/svg+xml", svgText(document.getElementById(name)));
  }
}

/* Make Plotly and the page's data out of what the page holds, and find its plots with their menus and the
   buttons that save. */
async function openPage() {
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
    menus: [...document.querySelectorAll(`select[data-plot~="${element.id}"]`)],
  }));
  for (const plot of page.plots) {
    for (const menu of plot.menus) menu.addEventListener("change", () => isSeen(plot.element) && draw(plot));
  }
  document.querySelectorAll("button[data-save]").forEach((button) => {
    button.addEventListener("click", () => save(button));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  const widths = new ResizeObserver((entries) => entries.forEach(({ target }) => allowKeys(target)));
  document.querySelectorAll(".scroll").forEach((box) => widths.observe(box));
}

/* Keys can scroll a box that is wider than its place. */
function allowKeys(box) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

/* Menus offer the layerings that are shown; what was chosen and is hidden now makes room for another. */
function offerShown() {
  for (const menu of document.querySelectorAll("select[data-layerings]")) {
    for (const option of menu.options) option.hidden = option.disabled = isHidden(option.value);
    const other = [...menu.options].find((option) => !option.disabled);
    if (isHidden(menu.value) && other) {
      menu.value = other.value;
      for (const event of ["input", "change"]) menu.dispatchEvent(new Event(event));
    }
  }
}

/* Whether an element is in no folded part of the page. */
function isSeen(element) {
  return element.closest("details.part:not([open])") === null;
}

function drawAll() {
  page.plots.filter((plot) => isSeen(plot.element)).forEach((plot) => draw(plot));
}
