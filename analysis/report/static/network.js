"use strict";

/* The map of the network: each direction of a link as wide and as dark as what it carries. */
function setUpNetwork(network) {
  const $ = (name) => document.getElementById(`network-${name}`);
  const lanes = [...document.querySelectorAll("#network .lane")];
  const [layering, what, time] = [$("layering"), $("what"), $("time")];
  const all = { bytes: "kB/s", packets: "packets/s", use: "% of its rate", lost: "packets lost" };
  const units = Object.fromEntries([...what.options].map(({ value }) => [value, all[value]]));
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  time.max = String(network.slices - 1);

  function amount(name, link, measure, slice) {
    const of = network.layerings[name];
    const values = (measure === "use" ? of.bytes : of[measure])[link];
    const seconds = slice < 0 ? of.seconds * network.slices : of.seconds;
    const total = slice < 0 ? sum(values) : values[slice];
    if (measure === "lost") return total;
    if (measure === "use") return (100 * total * network.links[link].ns_per_byte) / 1e9 / seconds;
    return total / seconds / (measure === "bytes" ? 1000 : 1);
  }

  const tops = new Map();
  function top(measure, isWhole) {
    const key = `${measure} ${isWhole}`;
    if (!tops.has(key)) {
      const slices = isWhole ? [-1] : [...Array(network.slices).keys()];
      let most = 0;
      for (const name of Object.keys(network.layerings)) {
        for (let link = 0; link < lanes.length; link += 1) {
          for (const slice of slices) most = Math.max(most, amount(name, link, measure, slice));
        }
      }
      tops.set(key, most);
    }
    return tops.get(key);
  }

  function mixed(share) {
    const style = getComputedStyle(root);
    const [low, high] = ["--load-low", "--load-high"].map((name) =>
      style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16)));
    return `rgb(${low.map((part, place) => Math.round(part + (high[place] - part) * share)).join(" ")})`;
  }

  const number = (value) => (value === 0 ? "0" : Number(value.toPrecision(3)).toLocaleString("en"));

  function told(link) {
    const { from, to, text, of: alike } = network.links[link];
    const slice = Number(time.value);
    const of = network.layerings[layering.value];
    const amounts = Object.keys(units).filter((key) => key !== "use" || network.links[link].ns_per_byte)
      .map((key) => `${number(amount(layering.value, link, key, slice))} ${units[key]}`).join(", ");
    const kinds = Object.entries(of.kinds[link]).map(([kind, n]) => `${kind} ${n}`).join(", ");
    const hop = of.hop_ms[link] === null ? ""
      : ` ${units.lost ? "An item’s hop" : "A packet’s way"} here took ${number(of.hop_ms[link])} ms (median).`;
    const mean = alike > 1 ? `, mean of ${alike} links` : "";
    return `${from} to ${to}${text && ` (${text})`}${mean}. ${layering.value}, ${$("when").value}: ${amounts}.`
      + ` Packets of the whole run by kind: ${kinds || "none"}.${hop}`;
  }

  function show() {
    const slice = Number(time.value);
    const seconds = network.layerings[layering.value].seconds;
    $("when").value = slice < 0 ? "whole run"
      : `${(slice * seconds).toFixed(2)} to ${((slice + 1) * seconds).toFixed(2)} s`;
    time.setAttribute("aria-valuetext", $("when").value);
    const most = top(what.value, slice < 0);
    $("high").textContent = `${number(most)} ${units[what.value]}`;
    lanes.forEach((lane, link) => {
      const value = amount(layering.value, link, what.value, slice);
      const share = most ? value / most : 0;
      const line = lane.querySelector(".load");
      line.style.stroke = value ? mixed(0.08 + 0.92 * share) : "var(--rule)";
      line.style.strokeWidth = value ? 1.5 + 6 * share : 1;
      const text = told(link);
      lane.querySelector("title").textContent = text;
      lane.setAttribute("aria-label", text);
    });
  }

  for (const menu of [layering, what, time]) menu.addEventListener("input", show);
  lanes.forEach((lane, link) => {
    for (const event of ["mouseenter", "focus", "click"]) {
      lane.addEventListener(event, () => { $("readout").textContent = told(link); });
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  ownRows.network = () => [
    [layering.dataset.word ?? "layering", "from", "to", "begin, s", "end, s", "bytes", "packets", ...(units.lost ? ["packets lost"] : [])],
    ...Object.entries(network.layerings).flatMap(([name, of]) => network.links.flatMap((link, place) =>
      of.bytes[place].map((bytes, slice) => [
        name, link.from, link.to, +(slice * of.seconds).toFixed(6), +((slice + 1) * of.seconds).toFixed(6),
        bytes, of.packets[place][slice], ...(units.lost ? [of.lost[place][slice]] : []),
      ]))),
  ];
  show();
  return show;
}
