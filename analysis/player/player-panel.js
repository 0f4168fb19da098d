"use strict";

/* The panel beside the networks: a packet dissected, or the tables of a node. */
const NO_PACKET = {
  "-1": "No packet that arrived: a timer or an application of the sender.",
  "-2": "The sender’s application had published the item.",
  "-3": "The sender’s application had joined the feed.",
};

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/* A time in seconds, to the nanosecond if need be. */
function seconds(time) {
  return `${(time / 1e9).toFixed(9).replace(/0{1,6}$/, "")} s`;
}

function milliseconds(time) {
  return `${Number((time / 1e6).toPrecision(4))} ms`;
}

/* A packet in a few words. */
function wordsOf(packet) {
  if (packet.words) return packet.seq ? `${packet.words} ${packet.seq}` : packet.words;
  if (packet.key === "nack") return "Nack";
  return packetWords(packet, packet);
}

function placesOf(packet) {
  return `${page.data.nodes[packet.a]} to ${page.data.nodes[packet.b]}`;
}

function titleOf(packet) {
  const feed = packet.feed >= 0 && page.data.feeds.length > 1 ? ` of ${page.data.feeds[packet.feed]}` : "";
  return `${wordsOf(packet)}${feed}`;
}

function packetButton(packet, goTo) {
  return element("button", { type: "button", onclick: () => goTo(packet) },
    `${titleOf(packet)}, ${placesOf(packet)}, ${seconds(packet.sent)}${packet.isLost ? ", lost" : ""}`);
}

function layers(fields) {
  const ip = fields.ip_bytes ? `IP ${fields.ip_bytes}` : "";
  const carries = { tcp: "TCP", udp: "UDP" }[fields.tcp_seq === undefined ? "udp" : "tcp"];
  return [
    `Ethernet ${fields.eth_bytes}`, ip, fields.udp_bytes ? `${carries} ${fields.udp_bytes}` : "",
    fields.carried_bytes ? `carried ${fields.carried_bytes}` : "", fields.lp_bytes ? `NDNLPv2 ${fields.lp_bytes}` : "",
    fields.ndn_bytes ? `NDN ${fields.ndn_bytes}` : "",
  ].filter(Boolean).join(" · ");
}

const FLAGS = ["FIN", "SYN", "RST", "PSH", "ACK"];

function fieldText(name, value) {
  if (name.endsWith("_ns")) return milliseconds(value);
  if (name === "tcp_flags") return FLAGS.filter((_, bit) => value & (1 << bit)).join(" ") || "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

/* The panel of a packet; goTo(packet) shows another one. */
async function packetPanel(packet, goTo) {
  const { layering } = packet;
  const { fields, effects, repair } = await layering.dissection(packet);
  const caused = await Promise.all(effects.slice(0, 12).map((id) => layering.packet(id)));
  const cause = packet.cause >= 0 ? await layering.packet(packet.cause) : null;
  const mended = repair >= 0 ? await layering.packet(repair) : null;
  const why = cause === null ? { "-2": ", as the application has published it", "-3": ", as the application has joined" }[packet.cause] ?? ""
    : `, as ${titleOf(cause)} had come from ${page.data.nodes[cause.a]}`;
  const layered = ["eth_bytes", "ip_bytes", "udp_bytes", "carried_bytes", "lp_bytes", "ndn_bytes"];
  const rows = Object.entries(fields).filter(([name]) => !layered.includes(name));
  const isLostItem = packet.isLost && packet.family === "data" && packet.seq > 0;
  const fate = packet.isLost ? "lost on the way" : `arrived ${milliseconds(packet.took)} later, at ${seconds(packet.sent + packet.took)}`;
  return [
    element("h2", {}, titleOf(packet)),
    element("p", {}, `${layering.name}: ${placesOf(packet)}, sent at ${seconds(packet.sent)}, ${fate}.`),
    element("p", {}, `Why: ${packet.reason}${why}.`),
    isLostItem ? element("h3", {}, "Who repaired it") : null,
    isLostItem ? element("p", {}, mended === null ? "The item did not come by another packet." : packetButton(mended, goTo)) : null,
    element("h3", {}, "Caused by"),
    element("p", {}, cause === null ? NO_PACKET[packet.cause] : packetButton(cause, goTo)),
    element("h3", {}, "Has caused"),
    caused.length === 0 ? element("p", {}, "No packet that is known.")
      : element("ul", { class: "plain" }, ...caused.map((each) => element("li", {}, packetButton(each, goTo))),
        effects.length > caused.length ? element("li", {}, `and ${effects.length - caused.length} more`) : null),
    element("h3", {}, "Dissected"),
    element("p", {}, `${packet.size} bytes: ${layers(fields)}.`),
    element("dl", { class: "fields" }, ...rows.flatMap(([name, value]) => [
      element("dt", { title: page.data.fields[name]?.[1] ?? null }, name.replace(/_ns$/, "").replaceAll("_", " ")),
      element("dd", {}, fieldText(name, value))])),
  ];
}

function cellText(column, value) {
  if (column === "expires") return value < 0 ? "never" : `${(value / 1e9).toFixed(3)}\u00a0s`;
  return value === null ? "–" : String(value);
}

/* The panel of a node: its tables at a time, and what has just changed in them. */
function nodePanel(layering, node, time) {
  const { rows, changed } = layering.state(node, time);
  const fresh = (row) => row.since === changed && !STEADY.includes(row.table);
  const parts = [
    element("h2", {}, `${node}, ${layering.name}`),
    element("p", {}, changed === null ? `At ${seconds(time)}.`
      : `At ${seconds(time)}. Marked: what changed at ${seconds(changed)}.`),
  ];
  for (const [name, { title, columns }] of Object.entries(page.data.tables)) {
    const own = rows.filter(({ table }) => table === name);
    if (own.length === 0) continue;
    const table = element("table", { class: "dense" },
      element("thead", {}, element("tr", {}, ...columns.map((column) => element("th", { scope: "col" }, column)))),
      element("tbody", {}, ...own.map((row) => {
        const keys = row.key === "" ? [] : row.key.split("\t");
        const values = row.value ?? columns.slice(keys.length).map((_, place) => (place ? "" : "gone"));
        const cells = [...keys, ...values].map((value, place) => cellText(columns[place], value));
        return element("tr", { class: fresh(row) ? (row.value === null ? "gone" : "fresh") : null },
          ...cells.map((text, place) => (place ? element("td", {}, text) : element("th", { scope: "row" }, text))));
      })));
    const isLong = own.length > 8 && ["counter", "route", "connection", "side"].includes(name);
    const box = element("div", { class: "scroll" }, table);
    parts.push(isLong ? element("details", { "data-table": name }, element("summary", {}, `${title} (${own.length})`), box)
      : element("div", {}, element("h3", {}, title), box));
  }
  if (parts.length === 2) parts.push(element("p", {}, "Nothing is known of its tables at this time."));
  return parts;
}
