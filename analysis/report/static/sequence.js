"use strict";

/* A sequence chart: a line down for each place, an arrow for each packet. Time runs downward, not to scale. */
const STEP = 24;

function svgElement(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* Draw a chart: `path`, the places from left to right, by number, with their `names` and `roles`; `rows`, the
   packets, { a, b, sent, received, kind } in µs, received null if lost; `notes`, [place, time, text]; and ms(time),
   words(row) and why(row), which say each, fate(row) in place of when it arrived. */
function drawSequence(drawing, { path, names, roles, rows, notes, ms, words, why, fate }) {
  const moments = new Map(); // "time/number" -> time; what would lie on another arrow gets a line of its own
  const taken = new Map();
  const moment = (time, link) => {
    const key = `${time} ${link}`;
    const number = taken.get(key) ?? 0;
    taken.set(key, number + 1);
    moments.set(`${time}/${number}`, time);
    return `${time}/${number}`;
  };
  const arrows = rows.map((row) => ({
    row,
    from: moment(row.sent, `${row.a} ${row.b}`),
    to: row.received === null ? null : moment(row.received, `${row.b} ${row.a} in`),
  }));
  const marks = notes.map(([node, time, text]) => [node, moment(time, `note ${node}`), text]);
  const order = [...moments.keys()].sort((a, b) =>
    moments.get(a) - moments.get(b) || Number(a.split("/")[1]) - Number(b.split("/")[1]));
  const line = new Map(order.map((key, place) => [key, place]));
  const top = 64;
  const y = (key) => top + STEP * line.get(key);
  const column = Math.min(230, Math.max(150, (drawing.parentElement.clientWidth - 170) / Math.max(path.length - 1, 1)));
  const x = (node) => 104 + column * path.indexOf(node);
  const width = 104 + column * (path.length - 1) + 66;
  const height = top + STEP * Math.max(order.length, 1) + 12;
  drawing.replaceChildren();
  for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) drawing.setAttribute(key, value);
  for (const node of path) {
    drawing.append(svgElement("line", { class: "life", x1: x(node), x2: x(node), y1: 40, y2: height }));
    drawing.append(svgElement("text", { class: "head", x: x(node), y: 16 }, names[node]));
    drawing.append(svgElement("text", { class: "role", x: x(node), y: 32 }, roles[node]));
  }
  drawing.append(svgElement("text", { class: "time", x: 66, y: 32 }, "ms"));
  let before = null;
  for (const key of order) {
    if (moments.get(key) !== before) drawing.append(svgElement("text", { class: "time", x: 66, y: y(key) }, ms(moments.get(key))));
    before = moments.get(key);
  }
  for (const { row, from, to } of arrows) {
    const [x1, y1] = [x(row.a), y(from)];
    const lostAt = 0.62;
    const x2 = to === null ? x1 + (x(row.b) - x1) * lostAt : x(row.b);
    const y2 = to === null ? y1 + STEP * lostAt : y(to);
    const group = svgElement("g", { class: `arrow kind-${row.kind}` });
    const end = fate?.(row) ?? (to === null ? "lost on the way" : `arrived at ${ms(row.received)} ms`);
    group.append(svgElement("title", {}, `${words(row)}: ${names[row.a]} to ${names[row.b]}, sent at ${ms(row.sent)} ms, ${end}. ${why(row)}.`));
    group.append(svgElement("line", { x1, y1, x2, y2 }));
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const tip = (turn, size) => `${x2 - size * Math.cos(angle + turn)} ${y2 - size * Math.sin(angle + turn)}`;
    group.append(svgElement("path", to === null
      ? { class: "cross", d: `M${x2 - 5} ${y2 - 5}L${x2 + 5} ${y2 + 5}M${x2 - 5} ${y2 + 5}L${x2 + 5} ${y2 - 5}` }
      : { class: "tip", d: `M${x2} ${y2}L${tip(0.36, 11)}L${tip(-0.36, 11)}Z` }));
    group.append(svgElement("text", { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 7 }, words(row)));
    drawing.append(group);
  }
  for (const [node, key, text] of marks) {
    drawing.append(svgElement("circle", { class: "note-dot", cx: x(node), cy: y(key), r: 4.5 }));
    const isRight = path.indexOf(node) === path.length - 1 && path.length > 1;
    const above = text === "delivered" ? 14 : -14;
    drawing.append(svgElement("text", { class: `note-text${isRight ? " right" : ""}`, x: x(node) + (isRight ? -4 : 4), y: y(key) + above }, text));
  }
}
