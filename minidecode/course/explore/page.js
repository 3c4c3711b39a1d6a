// The page of `minidecode explore`: draws the data of one recorded generation, at one step and under one plan.
//
// A text is a list of entries. Entry p < N is the prompt's token p; entry N + s*R + r is the token that row r took in
// step s (R rows). All texts of the run are written by textContent and by attributes, never as HTML.
(function () {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const N = data.start.length, R = data.rows;
  const state = { step: 0, plan: 0, row: 0, layer: 0, head: 0, whole: false };

  // ---- Small helpers

  const byId = (id) => document.getElementById(id);

  const { element: make, visible, flow, look, strips } = globalThis.minidecodePicture; // picture.js
  function draw(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const token = (text) => make("span", { class: "token" }, visible(text));
  const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

  function amount(number, unit) {
    for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (number >= size) return `${(number / size).toPrecision(3)} ${letter}${unit}`;
    }
    return `${number}${unit ? " " + unit : ""}`;
  }
  const bytes = (n) => amount(n, "B");

  // ---- What the data says

  const plan = () => data.plans[state.plan];
  const run = () => data.runs[plan().run];
  const textOf = (entry) => (entry < N ? data.start[entry] : run().tokens[entry - N].text);
  const stepOf = (entry) => (entry < N ? -1 : Math.floor((entry - N) / R));
  const rowOf = (entry) => (entry - N) % R;
  const isIdle = (entry) => entry >= N && run().tokens[entry - N].idle; // of a row whose text is done
  const parentOf = (entry) => (entry < N ? entry - 1 : run().tokens[entry - N].parent);

  // The entries of a row's text before step s, the prompt's included.
  function path(s, r) {
    const found = [];
    for (let e = s === 0 ? N - 1 : N + (s - 1) * R + r; e >= 0; e = parentOf(e)) found.unshift(e);
    return found;
  }
  const nameOfRow = (r) => (data.search === "beam" ? `beam ${r}` : R === 1 ? "the text" : `text ${r}`);

  const hasTable = () => plan().cache.includes("Indirect"); // rows of its memory are not beams

  // ---- Panels: each fills its elements anew

  function showCandidates() {
    const step = run().steps[state.step], isBeam = data.search === "beam";
    const best = Math.max(...step.candidates.map((c) => c.score ?? -Infinity));
    byId("candidates-say").textContent = isBeam
      ? `The best continuations of all beams, best first. At most ${R} become the beams of the next step. A score is `
        + "the sum of the log-probabilities of the whole new text."
      : "The tokens that the model finds likeliest, and the one that was taken. A score is the token's "
        + "log-probability.";
    const head = make("tr", {}, ...["", "score", "", isBeam || R > 1 ? "after" : "", "token", "becomes"].map(
      (text, i) => make("th", i === 1 ? { class: "number" } : {}, text)));
    const rows = step.candidates.map((c, i) => {
      const width = c.score === null ? 0 : 70 * Math.exp(Math.min(0, c.score - best));
      return make("tr", c.row !== null ? { class: "kept" } : {},
        make("td", { class: "number" }, `${i + 1}`),
        make("td", { class: "number" }, c.score === null ? "−∞" : c.score.toFixed(3)),
        make("td", {}, make("span", { class: "meter", style: `width:${width.toFixed(1)}px` })),
        make("td", {}, isBeam || R > 1 ? nameOfRow(c.parent) : ""),
        make("td", {}, token(c.text)),
        make("td", { class: "fate" }, fate(c)));
    });
    byId("candidates").replaceChildren(head, ...rows);
    const changed = Object.entries(step.changed).map(([name, found]) =>
      `${name} changed ${plural(found.count, "score")}, such as ` +
      found.examples.map(([r, text]) => `${visible(text)} after ${nameOfRow(r)}`).join(", ") + ".");
    byId("changed").textContent = changed.join(" ") || "No rule changed a score in this step.";
  }

  const MARKS = { runs: "●", ends: "■", refused: "✕", dropped: "○" };
  function fate(c) {
    const meaning = data.search === "beam"
      ? { runs: `beam ${c.row}`, ends: "finished", refused: "not kept", dropped: "dropped" }
      : { runs: "taken", ends: "taken; ends", dropped: "not taken" };
    return `${MARKS[c.fate]} ${meaning[c.fate]}`;
  }

  function showTree() {
    const s = state.step, column = 88, line = 30, left = 68, top = 26, box = 74;
    const alive = new Set();
    for (let r = 0; r < R; r++) path(s, r).forEach((e) => alive.add(e));
    const selected = new Set(path(s, state.row));
    const x = (step) => left + column * step, y = (row) => top + line * row;
    const edges = [], boxes = [];
    let lanes = R;
    const node = (step, lane, parent, text, kind, tip) => {
      const at = parent < N ? [left - 10, y((R - 1) / 2)] : [x(stepOf(parent)) + box, y(rowOf(parent))];
      const to = [x(step), y(lane)], middle = (at[0] + to[0]) / 2;
      edges.push(draw("path", { class: `edge ${kind}`, d:
        `M${at[0]} ${at[1] + 10}C${middle} ${at[1] + 10} ${middle} ${to[1] + 10} ${to[0]} ${to[1] + 10}` }));
      boxes.push(draw("g", { class: kind }, draw("title", {}, tip),
        draw("rect", { x: to[0], y: to[1], width: box, height: 20, rx: 3 }),
        draw("text", { x: to[0] + 5, y: to[1] + 14 }, short((kind === "ended" ? "■" : "") + visible(text), 10))));
    };
    for (let step = 0; step <= s; step++) {
      for (let r = 0; r < R; r++) {
        const found = run().tokens[step * R + r], e = N + step * R + r;
        if (!found || found.idle) continue;
        const kind = step === s ? "next" : alive.has(e) ? "alive" : "given-up";
        node(step, r, found.parent, found.text, kind + (selected.has(e) ? " selected" : ""),
          `${visible(found.text)}: step ${step + 1}, ${nameOfRow(r)}`);
      }
      let lane = R;
      run().steps[step].candidates.filter((c) => c.fate === "ends").forEach((c) => {
        const parent = step === 0 ? N - 1 : N + (step - 1) * R + c.parent;
        node(step, lane++, parent, c.text, "ended", `${visible(c.text)} ends the text of ${nameOfRow(c.parent)}`);
      });
      lanes = Math.max(lanes, lane);
      boxes.push(draw("text", { class: "head", x: x(step) + 2, y: 14 }, `step ${step + 1}`));
    }
    boxes.push(draw("g", { class: "alive" },
      draw("title", {}, data.start.map(visible).join("")),
      draw("rect", { x: 2, y: y((R - 1) / 2), width: left - 12, height: 20, rx: 3 }),
      draw("text", { x: 7, y: y((R - 1) / 2) + 14 }, data.source.length ? "start" : "prompt")));
    const width = x(s) + box + 6, height = y(lanes) + 6;
    const picture = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }, ...edges, ...boxes);
    byId("tree").replaceChildren(picture);
    byId("tree").scrollLeft = byId("tree").scrollWidth;

    byId("rows").replaceChildren(...Array.from({ length: R }, (_, r) => {
      const own = path(s, r).slice(data.source.length ? 0 : N).filter((e) => !isIdle(e));
      const idle = s > 0 && isIdle(N + (s - 1) * R + r);
      const choice = make("input", { type: "radio", name: "row", value: `${r}` });
      choice.checked = r === state.row;
      choice.addEventListener("change", () => { state.row = r; show(); });
      return make("label", {}, choice, make("span", {}, `${nameOfRow(r)}:`),
        own.length ? token(own.map(textOf).join("")) : make("span", { class: "note" }, idle ? "" : "no new token yet"),
        idle ? make("span", { class: "note" }, "has ended; its row is computed to no use") : "");
    }));
  }

  function showBricks() {
    const step = plan().steps[state.step], selected = new Set(path(state.step, state.row));
    const parts = [], strips = [];
    let heading = "";
    for (const strip of step.strips) {
      const title = `${strip.part}/${strip.array}`;
      if (title !== heading) {
        heading = title;
        const what = strip.part === "source" ? "of the source"
          : data.source.length ? "of the decoder's own tokens" : "";
        parts.push(make("p", { class: "array" }, strip.array ? make("code", {}, strip.array) : "nothing is kept",
          strip.array ? ` ${what}: ${bytes(strip.brick)} a brick` : ": each row is computed from its first token on"));
        const name = `bricks of ${strip.array || "no cache"}`;
        strips.push(make("div", { class: "scroll", tabindex: "0", "aria-label": name }));
        parts.push(strips[strips.length - 1]);
      }
      const ofSource = strip.part === "source";
      const bricks = strip.cells.map((entry, m) => {
        const text = entry < 0 ? "" : ofSource ? data.source[entry] : isIdle(entry) ? "(idle)" : textOf(entry);
        const kind = entry < 0 ? "empty" : kindOf(strip, m);
        const mark = { new: "+", copied: "⇄", again: "↻" }[kind] || "";
        const isSelected = !ofSource && selected.has(entry) && isReadBy(strip, state.row, m);
        const where = entry < 0 ? "nothing" : ofSource ? `source position ${entry + 1}`
          : isIdle(entry) ? "computed after the end of its text" : entry < N ? `prompt position ${entry + 1}`
          : `chosen in step ${stepOf(entry) + 1} by ${nameOfRow(rowOf(entry))}`;
        return make("span", { class: `brick ${kind}${isSelected ? " selected" : ""}`,
          title: `${visible(text)} (${where}); read by ${plural(strip.readers[m], "text")}` },
          short(mark + visible(text), 7));
      });
      const shared = strip.readers.length > 0 && strip.readers.every((n) => n === R) && R > 1;
      const room = strip.room ? [make("span", { class: "note" }, ` + ${plural(strip.room, "empty brick")}`)] : [];
      strips[strips.length - 1].append(make("div", { class: "strip" },
        make("b", {}, shared ? `all ${R}` : hasTable() ? `row ${strip.row}` : nameOfRow(strip.row)), ...bricks, ...room));
    }
    byId("bricks").replaceChildren(...parts);
    strips.forEach((strip) => { strip.scrollLeft = strip.scrollWidth; }); // the newest bricks are in sight

    const held = bytes(step.held), most = bytes(plan().cache_peak_bytes);
    byId("cache-says").textContent = step.strips.some((strip) => strip.array)
      ? "A brick is what all layers keep of one position: its keys and values, or its hidden state. After this step "
        + `the cache holds ${held}, of which ${bytes(step.used)} are in use; in the whole run it holds at most ${most}.`
        + (hasTable() ? " A table says in which row a beam finds each of its positions." : "")
      : "This plan keeps no keys and values, so every step computes all positions again. Between steps it holds "
        + `${held}.`;
    byId("dropped").replaceChildren(...(step.dropped.length
      ? ["Dropped in this step: ", ...step.dropped.flatMap(
        (e) => [make("span", { class: "token gone" }, visible(textOf(e))), " "])]
      : ["No token was dropped in this step."]));
  }

  function kindOf(strip, m) {
    const mark = strip.states[m];
    if (mark === "a") return "again";
    if (strip.readers[m] === 0) return "unread";
    return mark === "+" ? "new" : mark === "c" ? "copied" : strip.readers[m] > 1 ? "shared" : "kept";
  }
  // A row reads its own strip, and bricks that several read.
  const isReadBy = (strip, r, m) => strip.row === r || strip.readers[m] > 1 || strip.array === "";

  function showAttention() {
    const found = run().attention, ofSource = data.source.length > 0;
    const newest = path(state.step, state.row), words = ofSource ? data.source : newest.map(textOf);
    const rows = found.weights[state.step], packed = atob(rows[Math.min(state.row, rows.length - 1)]);
    const L = found.layers.length, H = found.heads, M = packed.length / (L * H);
    const last = textOf(newest[newest.length - 1]);
    byId("attention-says").textContent = `How much “${visible(last)}”, the newest token of ${nameOfRow(state.row)}, `
      + `looks at each token of ${ofSource ? "the source" : "its text"} when the next one is predicted. A row is a `
      + "head, and adds up to 100 %. Computed again after the run, by the reference ops.";
    const head = make("thead", {}, make("tr", {}, make("th", {}, ""),
      ...words.slice(0, M).map((text) => make("th", {}, make("span", {}, short(visible(text), 9))))));
    const body = Array.from({ length: H }, (_, h) => make("tr", {}, make("th", {}, `head ${h}`),
      ...Array.from({ length: M }, (_, m) => {
        const weight = packed.charCodeAt((state.layer * H + h) * M + m) / 255;
        const tip = `head ${h}, ${visible(words[m])}: ${percent(weight)}`;
        return make("td", { style: `--w:${shade(weight)}`, title: tip });
      })));
    byId("attention").replaceChildren(head, make("tbody", {}, ...body));
    const weights = Array.from({ length: M }, (_, m) => packed.charCodeAt((state.layer * H + state.head) * M + m) / 255);
    const best = weights.indexOf(Math.max(...weights));
    byId("look").replaceChildren(look(words.slice(0, M), weights, percent));
    byId("look-says").textContent = `Most of all at “${visible(words[best])}”: ${percent(weights[best])}.`;
    showStrips(found, ofSource ? words.slice(0, M).map((_, m) => m) : newest.slice(0, M), last);
  }

  // positions: of the source, or entries of the text.
  function showStrips(found, positions, last) {
    if (!found.queries) {
      byId("strips-say").textContent = "They would make the page larger than 3 MB.";
      return;
    }
    const L = found.layers.length, G = found.groups, g = Math.floor(state.head * G / found.heads);
    const part = (text, heads, head) => {
      const K = text.length / (L * heads), from = (state.layer * heads + head) * K;
      return Int8Array.from({ length: K }, (_, i) => text.charCodeAt(from + i));
    };
    const rows = found.queries[state.step], q = part(atob(rows[Math.min(state.row, rows.length - 1)]), found.heads, state.head);
    const colours = ["--blue", "--red"].map((name) => getComputedStyle(document.body).getPropertyValue(name));
    byId("strips").replaceChildren(strips(q, positions.map((p) => (
      { k: part(atob(found.keys[p]), G, g), v: part(atob(found.values[p]), G, g) })),
    `query, keys and values of head ${state.head} in this layer`, colours));
    byId("strips-say").textContent = `Above: the query of “${visible(last)}”. Below, a line for each token: its key, and `
      + "right of it its value. A cell is a number: the darker, the larger; another colour below 0.";
  }
  const shade = (weight) => Math.sqrt(weight).toFixed(3); // small weights are to be seen
  const percent = (weight) => `${Math.round(100 * weight)} %`;

  // The first step begins with the forward pass over the prompt.
  const inStep = (p, step, what) => [...(step === 0 ? p.prefill[what] : []), ...p.steps[step][what]];

  function showForward() {
    const boxOf = ([op, name, shape, , moved, computed]) => ({
      title: make("code", {}, plan().ops[op] + (name ? `: ${name}` : "")), bytes: moved, tip: plan().implementations[op],
      says: `${shape}; ${bytes(moved)}, ${amount(computed, "")} operations` });
    byId("forward").replaceChildren(flow(inStep(plan(), state.step, "parts").map(
      ({ times, boxes }) => ({ times, boxes: boxes.map(boxOf) }))));
  }

  function showOps() {
    const names = plan().ops, sums = names.map(() => [0, 0, 0]);
    const steps = state.whole ? plan().steps.map((_, s) => s) : [state.step];
    steps.flatMap((s) => inStep(plan(), s, "ops")).forEach(([op, ...numbers]) => numbers.forEach((n, i) => { sums[op][i] += n; }));
    const rows = names.map((name, i) => [name, ...sums[i], plan().implementations[i]]).filter((row) => row[1] > 0);
    rows.sort((a, b) => b[2] - a[2]);
    const most = [2, 3].map((i) => Math.max(1, ...rows.map((row) => row[i])));
    const total = [1, 2, 3].map((i) => rows.reduce((sum, row) => sum + row[i], 0));
    const meter = (value, of, kind) =>
      make("span", { class: `meter ${kind}`, style: `width:${(70 * value / of).toFixed(1)}px` });
    const line = (name, numbers, tip, meters) => make("tr", {},
      make("td", tip ? { title: tip } : {}, make("code", {}, name)),
      make("td", { class: "number" }, numbers[0].toLocaleString("en")),
      make("td", { class: "number" }, bytes(numbers[1])),
      make("td", {}, meters ? meter(numbers[1], most[0], "bytes") : ""),
      make("td", { class: "number" }, amount(numbers[2], "")),
      make("td", {}, meters ? meter(numbers[2], most[1], "operations") : ""));
    byId("ops").replaceChildren(
      make("tr", {}, ...["op", "calls", "bytes", "", "operations", ""].map((text, i) =>
        make("th", i % 2 === 0 && i || i === 1 ? { class: "number" } : {}, text))),
      ...rows.map(([name, ...rest]) => line(name, rest, rest[3], true)),
      line("all", total, "", false));
  }

  function showComparison() {
    const width = Math.max(240, Math.min(640, byId("chart").clientWidth || 480)), height = 150, left = 62, bottom = 22;
    const most = Math.max(1, ...data.plans.flatMap((p) => p.steps.map((s) => s.used)));
    const longest = Math.max(...data.plans.map((p) => p.steps.length));
    const x = (s) => left + (width - left - 10) * (longest === 1 ? 0.5 : s / (longest - 1));
    const y = (used) => 10 + (height - bottom - 10) * (1 - used / most);
    const lines = data.plans.map((p, i) => draw("polyline", { class: `plot plot-${i % 6}`,
      points: p.steps.map((s, k) => `${x(k).toFixed(1)},${y(s.used).toFixed(1)}`).join(" ") }));
    const axis = [[0, "0"], [most, bytes(most)]].map(([value, text]) =>
      draw("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, text));
    byId("chart").replaceChildren(draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "bytes in use in the cache of each plan by step" },
      draw("line", { class: "now", x1: x(state.step), x2: x(state.step), y1: 6, y2: height - bottom }),
      ...lines, ...axis,
      draw("text", { x: x(0), y: height - 4, "text-anchor": longest > 1 ? "start" : "middle" }, "step 1"),
      draw("text", { x: x(longest - 1), y: height - 4, "text-anchor": "end" }, longest > 1 ? `step ${longest}` : "")));

    const sum = (ops, i) => ops.reduce((total, op) => total + op[i], 0);
    const head = ["plan", "in use", "held", "held at most", "moved, this step", "operations, this step", "moved, whole run"];
    byId("compare").replaceChildren(
      make("tr", {}, ...head.map((text, i) => make("th", i ? { class: "number" } : {}, text))),
      ...data.plans.map((p, i) => {
        const at = Math.min(state.step, p.steps.length - 1), step = p.steps[at], ops = inStep(p, at, "ops");
        const whole = p.steps.flatMap((_, s) => inStep(p, s, "ops"));
        const cells = [bytes(step.used), bytes(step.held), bytes(p.cache_peak_bytes), bytes(sum(ops, 2)),
          amount(sum(ops, 3), ""), bytes(sum(whole, 2))];
        return make("tr", i === state.plan ? { class: "current" } : {}, make("td", {}, make("code", {}, p.asked)),
          ...cells.map((text, i) => make("td", { class: "number", "data-label": head[i + 1] }, text)));
      }));
  }

  // What is wider than its panel says that it scrolls, and fades out on the right where more of it is.
  function tellWide(box) {
    const hidden = box.scrollWidth - box.clientWidth;
    box.classList.toggle("wide", hidden > 1);
    box.classList.toggle("more", hidden - box.scrollLeft > 1);
  }
  const tellAllWide = () => document.querySelectorAll?.(".scroll").forEach(tellWide);

  // ---- Controls

  function show() {
    const S = plan().steps.length;
    state.step = Math.max(0, Math.min(S - 1, state.step));
    byId("step").max = S - 1;
    byId("step").value = state.step;
    byId("at").textContent = `step ${state.step + 1} of ${S}`;
    byId("step").setAttribute("aria-valuetext", byId("at").textContent);
    byId("back").disabled = state.step === 0;
    byId("next").disabled = state.step === S - 1;
    showTexts();
    showCandidates();
    showTree();
    showForward();
    showBricks();
    showAttention();
    showOps();
    showComparison();
    tellAllWide();
  }

  function showTexts() {
    const lines = [[data.source.length ? "source" : "prompt", data.prompt]];
    run().texts.forEach((t, i) => lines.push([run().texts.length > 1 ? `result ${i + 1}` : "result", t.text]));
    byId("texts").replaceChildren(...lines.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  }

  function setUp() {
    const m = data.model, kind = { beam: `beam search with ${R} beams`, greedy: "greedy search", sampling: "sampling" };
    const heads = plural(data.runs[0].attention.heads, "head");
    byId("about").textContent = `${m.name} (${m.family}, ${plural(m.layers, "layer")}, ${heads}, ${m.dtype}), `
      + `${kind[data.search]}. Move the slider, or press the arrow keys, to go from step to step.`;
    if (data.runs.length > 1) {
      byId("differ").hidden = false;
      byId("differ").textContent = "The plans did not choose the same tokens: texts, tree and attention change with "
        + "the plan.";
    }
    data.plans.forEach((p, i) => {
      const choice = make("input", { type: "radio", name: "plan", value: `${i}` });
      choice.checked = i === 0;
      choice.addEventListener("change", () => { state.plan = i; show(); });
      byId("plans").append(make("label", {}, choice, " ", make("code", {}, p.asked)));
    });
    const found = data.runs[0].attention;
    byId("layer").append(...found.layers.map((layer, i) =>
      make("option", { value: `${i}` }, `${layer + 1} of ${found.of_layers}`)));
    byId("head").append(...Array.from({ length: found.heads }, (_, h) => make("option", { value: `${h}` }, `${h}`)));
    state.layer = found.layers.length - 1;
    byId("layer").value = `${state.layer}`;
    if (found.layers.length < found.of_layers) {
      byId("layers-left-out").textContent = `The page holds ${found.layers.length} of ${found.of_layers} layers, to `
        + "stay below 3 MB.";
    }
    byId("fates").replaceChildren(...(data.search === "beam"
      ? [make("span", {}, "● goes on as this beam"), make("span", {}, "■ finished"),
        make("span", {}, "✕ ended, not kept"), make("span", {}, "○ dropped: not among the best")]
      : [make("span", {}, "● taken"), make("span", {}, "■ taken; it ends the text"), make("span", {}, "○ not taken")]),
      make("span", {}, make("i", { class: "key bytes" }), "probability beside the best one's"));
    byId("shades").replaceChildren(...[0, 0.05, 0.25, 0.5, 1].map((w) =>
      make("span", {}, make("i", { style: `--w:${shade(w)}` }), percent(w))));
    const sample = (i) => draw("svg", { width: 34, height: 8, "aria-hidden": "true" },
      draw("path", { class: `plot plot-${i % 6}`, d: "M0 4H34" }));
    byId("lines").replaceChildren(...data.plans.map((p, i) => make("span", {}, sample(i), p.asked)));

    byId("step").addEventListener("input", () => { state.step = Number(byId("step").value); show(); });
    byId("back").addEventListener("click", () => { state.step -= 1; show(); });
    byId("next").addEventListener("click", () => { state.step += 1; show(); });
    byId("layer").addEventListener("change", () => { state.layer = Number(byId("layer").value); show(); });
    byId("head").addEventListener("change", () => { state.head = Number(byId("head").value); show(); });
    for (const [id, whole] of [["of-step", false], ["of-run", true]]) {
      byId(id).addEventListener("change", () => { state.whole = whole; show(); });
    }
    // Arrow keys step from everywhere but from what uses them itself.
    document.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const isTaken = event.target.closest?.("input, select, .scroll") || event.ctrlKey || event.altKey || event.metaKey;
      if (!by || isTaken) return;
      event.preventDefault();
      state.step += by;
      show();
    });
    globalThis.addEventListener?.("resize", () => { showComparison(); tellAllWide(); }); // as wide as their panels
    globalThis.addEventListener?.("scroll", (e) => { if (e.target.classList?.contains("scroll")) tellWide(e.target); },
      true);
    show();
  }

  setUp();
})();
