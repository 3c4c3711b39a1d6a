// Runs a page of `minidecode explore` in node, over a small stand-in for a document, and uses all of its controls.
// Prints what each panel says, by plan and step, as JSON. An error of the page ends it with another code than 0.
"use strict";
const fs = require("fs");
const vm = require("vm");

const html = fs.readFileSync(process.argv[2], "utf8");

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], listeners: {}, hidden: false, checked: false });
  }
  setAttribute(name, value) {
    if (/undefined|NaN|\[object/.test(String(value))) throw new Error(`${this.tag} has ${name}=${value}`);
    this.attributes[name] = String(value);
  }
  append(...children) {
    this.children.push(...children);
  }
  replaceChildren(...children) {
    this.children = children;
  }
  get textContent() {
    return this.children.map((c) => (c instanceof Element ? c.textContent : String(c))).join("");
  }
  set textContent(text) {
    this.children = [String(text)];
  }
  addEventListener(type, listener) {
    (this.listeners[type] ||= []).push(listener);
  }
  fire(type, event = {}) {
    (this.listeners[type] || []).forEach((listener) => listener({ target: this, ...event }));
  }
  closest() {
    return null;
  }
  getContext() {
    return { fillRect: (...numbers) => {
      if (!numbers.every(Number.isFinite)) throw new Error(`drawn at ${numbers}`);
      this.cells = (this.cells || 0) + 1;
    } };
  }
  all(tag) {
    const below = this.children.filter((c) => c instanceof Element).flatMap((c) => c.all(tag));
    return this.tag === tag ? [this, ...below] : below;
  }
}

// As a browser reads it: a script ends at the first </script>, whatever stands before.
const scripts = [...html.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/g)];
if (scripts.length !== 2) throw new Error(`the page has ${scripts.length} scripts`);
const known = new Map();
for (const [, tag, id] of html.slice(0, scripts[0].index).matchAll(/<(\w+)[^>]* id="([\w-]+)"/g)) known.set(id, new Element(tag));
known.set("data", new Element("script"));
known.get("data").textContent = scripts[0][2];

const page = new Element("document");
const document = {
  getElementById: (id) => known.get(id) || null,
  createElement: (tag) => new Element(tag),
  createElementNS: (space, tag) => new Element(tag),
  addEventListener: (...given) => page.addEventListener(...given),
};
const getComputedStyle = () => ({ getPropertyValue: () => "#000" });
vm.runInNewContext(scripts[1][2], { document, atob, console, getComputedStyle }, { filename: "page.js" });

const PANELS = ["texts", "tree", "rows", "cache-says", "bricks", "dropped", "candidates", "attention-says", "attention",
  "ops", "forward", "look", "look-says", "strips-say", "compare", "chart", "fates", "shades", "lines", "about"];
function said() {
  const found = Object.fromEntries(PANELS.map((id) => [id, known.get(id).textContent]));
  for (const [id, text] of Object.entries(found)) {
    if (!text.trim()) throw new Error(`the panel ${id} is empty`);
    if (/undefined|NaN|\[object/.test(text)) throw new Error(`the panel ${id} says ${text}`);
  }
  found.attention = known.get("attention").all("tr").map((row) => row.all("td").map((cell) => cell.attributes.title));
  found.cells = known.get("strips").all("canvas").map((canvas) => [canvas.attributes.width, canvas.attributes.height, canvas.cells]);
  found.bricks = known.get("bricks").all("span").map((b) => b.attributes.class).filter((kind) => kind.startsWith("brick"));
  return found;
}

const slider = known.get("step"), out = [];
for (const plan of known.get("plans").all("input")) {
  plan.fire("change");
  const steps = [];
  for (let step = 0; step <= Number(slider.max); step++) {
    slider.value = step;
    slider.fire("input");
    const rows = known.get("rows").all("input").length;
    for (let r = rows - 1; r >= 0; r--) {
      known.get("rows").all("input")[r].fire("change");
      said();
    }
    steps.push(said());
  }
  known.get("next").fire("click"); // at the end: it stays
  page.fire("keydown", { key: "ArrowLeft", preventDefault() {} });
  if (Number(slider.max) > 0 && Number(slider.value) !== Number(slider.max) - 1) throw new Error("an arrow key does not step");
  known.get("back").fire("click");
  known.get("of-run").fire("change");
  said();
  known.get("of-step").fire("change");
  out.push(steps);
}
for (let layer = 0; layer < known.get("layer").all("option").length; layer++) {
  known.get("layer").value = String(layer);
  known.get("layer").fire("change");
  said();
}
for (let head = 0; head < known.get("head").all("option").length; head++) {
  known.get("head").value = String(head);
  known.get("head").fire("change");
  said();
}
process.stdout.write(JSON.stringify(out));
