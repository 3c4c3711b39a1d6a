// The anatomy of a step: controls, and the picture of what engine.js computes in a worker. Nothing is loaded but the
// model's two files.
(function () {
  'use strict';
  const root = document.querySelector('[data-anatomy]');
  if (!root) return;
  const here = document.currentScript.src.replace(/page\.js.*/, ''), { ops } = JSON.parse(root.dataset.anatomy);
  const { say, inDigits } = window.minidecodeCosts, { element, visible, flow, look, strips } = window.minidecodePicture;
  const SVG = 'http://www.w3.org/2000/svg';
  const PLANS = [['none', 'no cache'], ['cache', 'cache'], ['split', 'cache without copies of the prompt'],
    ['el', 'EL-attention'], ['mqa', 'multi-query']];

  // ---- Elements -------------------------------------------------------------------------------------------------------

  function drawn(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // ---- Controls -------------------------------------------------------------------------------------------------------

  const inputs = {};
  function field(name, title, control, extra) {
    control.id = `anatomy-${name}`;
    inputs[name] = control;
    return element('div', { class: 'live-control', ...extra }, element('label', { for: control.id }, title), control);
  }
  const number = (value, min, max, step) => element('input', { type: 'number', value, min, max, step, required: '' });
  const select = choices => element('select', {}, ...choices.map(([value, title]) => element('option', { value }, title)));
  const button = (name, title) => {
    inputs[name] = element('button', { type: 'button', id: `anatomy-${name}` }, title);
    return inputs[name];
  };

  const controls = element('form', { class: 'anatomy-controls', novalidate: '' },
    field('text', 'Your text', element('input', { type: 'text', value: 'Fellow citizens,', maxlength: 2000 })),
    element('div', { class: 'live-controls' },
      field('plan', 'The plan', select(PLANS)),
      field('search', 'The search', select([['beams', 'beams'], ['greedy', 'the likeliest token'], ['draw', 'draws']])),
      field('W', 'Beams', number(3, 2, 6, 1), { 'data-of': 'beams' }),
      field('temperature', 'Temperature', number(1, 0.1, 5, 0.05), { 'data-of': 'draw' }),
      field('topK', 'Top-k (0: all)', number(50, 0, 4096, 1), { 'data-of': 'draw' }),
      field('topP', 'Top-p', number(1, 0.05, 1, 0.05), { 'data-of': 'draw' }),
      field('seed', 'Seed', number(0, 0, 4294967295, 1), { 'data-of': 'draw' }),
      field('newTokens', 'New tokens', number(16, 1, 64, 1)),
      field('pace', 'Pace', select([['700', 'slow'], ['150', 'quick'], ['0', 'as fast as it computes']]))),
    element('div', { class: 'anatomy-buttons' }, button('back', 'Back'), button('step', 'Step'), button('play', 'Play'),
      button('again', 'From the start')));
  const status = element('p', { class: 'anatomy-status', role: 'status' });

  // ---- The state: the steps so far, and the one that is looked at ------------------------------------------------------

  const SIZES = { 'tiny-gpt2': '7 MB', 'tiny-gpt2-mqa': '5 MB' }, loaded = new Set();
  let worker = null, steps = [], at = -1, playing = false, waiting = false, timer = 0, run = 0;

  // What is wrong with the controls that are shown, or ''.
  function wrong() {
    const isFine = ({ type, value, min, max, step }) => type !== 'number' || (value !== '' && Number(value) >= Number(min)
      && Number(value) <= Number(max) && (step !== '1' || Number.isInteger(Number(value))));
    const input = Object.values(inputs).find(each => !each.closest('[hidden]') && !isFine(each));
    return input ? `${input.labels[0].textContent}: type a${input.step === '1' ? ' whole' : ''} number from ${input.min} to ` +
      `${input.max}.` : '';
  }
  function asked() {
    const value = name => Number(inputs[name].value), plan = inputs.plan.value, search = inputs.search.value;
    const options = { plan, newTokens: value('newTokens'), ngram: 3, W: search === 'beams' ? value('W') : 1 };
    if (search === 'draw')
      options.sampling = { temperature: value('temperature'), topK: value('topK'), topP: value('topP'), seed: value('seed') };
    return { name: plan === 'mqa' ? 'tiny-gpt2-mqa' : 'tiny-gpt2', text: inputs.text.value, options };
  }

  function restart() {
    stop();
    [steps, at, waiting] = [[], -1, false];
    panels.strips.replaceChildren();
    root.querySelectorAll('[data-of]').forEach(part => { part.hidden = part.dataset.of !== inputs.search.value; });
    run++; // answers to an earlier question are not shown
    if (wrong()) return fail(wrong());
    if (!worker) {
      worker = new Worker(`${here}worker.js`);
      worker.onmessage = ({ data }) => arrived(data);
      worker.onerror = () => fail('The worker that computes did not start in this browser.');
    }
    const start = asked();
    if (!loaded.has(start.name)) tell(`Loading the model: ${SIZES[start.name]}.`);
    ask({ start });
  }

  function ask(message) {
    waiting = true;
    worker.postMessage({ ...message, run });
  }

  function arrived(step) {
    if (step.run !== run) return;
    if (step.looked) return inside(step);
    waiting = false;
    if (step.error) return fail(step.error);
    loaded.add(asked().name);
    const isNext = at === steps.length - 1; // or the reader went back meanwhile
    steps.push(step);
    if (!isNext) return;
    at++;
    if (step.result) stop();
    else if (playing && Number(inputs.pace.value)) later();
    else if (playing) ask({}); // computed while this step is drawn
    draw();
  }

  const isOver = () => at >= 0 && at === steps.length - 1 && steps[at].result !== null;
  function forward() {
    if (at < steps.length - 1) {
      at++;
      if (isOver()) stop();
      draw();
      later();
    } else if (steps.length && !waiting && !isOver()) ask({});
  }
  function later() {
    window.clearTimeout(timer);
    if (playing) timer = window.setTimeout(forward, Number(inputs.pace.value));
  }
  function back() {
    stop();
    if (at > 0) at--;
    draw();
  }
  function stop() {
    window.clearTimeout(timer);
    playing = false;
    inputs.play.textContent = 'Play';
  }
  function play() {
    if (playing) return stop();
    playing = true;
    inputs.play.textContent = 'Pause';
    if (!isOver()) return forward();
    at = 0;
    draw();
    later();
  }
  function fail(words) {
    stop();
    picture.hidden = true; // it is of an earlier run
    tell(words);
  }
  function tell(words) {
    status.textContent = words;
  }

  // ---- The picture ----------------------------------------------------------------------------------------------------

  const panels = {};
  const panel = (name, title, words) => {
    panels[name] = element('div', { class: 'anatomy-panel' });
    return element('section', { class: `anatomy-${name}` }, element('h3', {}, title), element('p', {}, words), panels[name]);
  };
  const picture = element('div', { class: 'anatomy-picture' },
    panel('texts', 'The texts', 'What runs now. Each underlined piece is a token; the last one is new.'),
    panel('counts', 'So far', 'What this plan has computed, and what decoding without a cache would have. The ratio is the second over the first.'),
    panel('boxes', 'The step, op by op', 'Lit: what this step computes. Bars: bytes. Each name leads to the four versions of the op.'),
    panel('cache', 'The cache', 'A brick is what is kept of one position, in all layers.'),
    panel('attention', 'Attention', 'How much the newest token looks at each position, in one layer and head.'),
    panel('strips', 'Query, keys and values', 'The numbers of that head: dark for large ones, another colour below 0.'),
    panel('logits', 'The next token', 'The best continuations by log-probability; for beams, added up over the new tokens. A bar is the probability beside the best one\'s. \u2713: goes on. \u25a0: ends a text.'),
    panel('tree', 'The tree', 'Each column is one of the last steps. Pale: given up.'));
  const choice = { layer: 0, head: 0, beam: 0 };

  function draw() {
    const now = steps[at], focused = document.activeElement.id;
    if (!now) return;
    picture.hidden = false;
    tell(now.result && at === steps.length - 1
      ? `Done: ${now.result.length} tokens. "${now.text}"`
      : `Step ${now.step}: ${now.rows} ${now.rows === 1 ? 'row goes' : 'rows go'} through the model.`);
    root.dataset.step = now.step;
    root.dataset.result = now.result ? now.result.join(' ') : '';
    inputs.back.setAttribute('aria-disabled', at === 0); // it keeps the focus
    inputs.step.setAttribute('aria-disabled', isOver());
    Object.entries({ texts, counts, boxes, cache, attention, logits, tree }).forEach(
      ([name, make]) => panels[name].replaceChildren(...[make(now)].flat()));
    if (focused && document.activeElement.id !== focused) document.getElementById(focused)?.focus();
  }

  function texts({ texts }) {
    return texts.map(({ words }, w) => element('p', { class: 'anatomy-text' },
      texts.length > 1 ? `${w + 1}. ` : '',
      ...words.map((word, i) => element('span', i === words.length - 1 ? { class: 'anatomy-new' } : {}, visible(word)))));
  }

  function counts({ total, without }) {
    const row = (title, what) => {
      return element('tr', {}, element('th', { scope: 'row' }, title),
        ...[total, without].map(from => element('td', {}, what === 'rows' ? String(from.rows) : say(what, from[what]))),
        element('td', {}, `${inDigits(without[what] / total[what])}x`));
    };
    const head = ['', 'this plan', 'no cache', 'ratio'].map(title => element('th', { scope: 'col' }, title));
    return element('table', { class: 'live-table' }, element('thead', {}, element('tr', {}, ...head)),
      element('tbody', {}, row('rows', 'rows'), row('bytes', 'bytes'), row('operations', 'operations')));
  }

  // All boxes that any plan has, in the order of the forward pass.
  const ORDER = [['reorder'], ['embedding'], ['linear', 'queries, keys, values'], ['heads'], ['append'], ['prefill'], ['grouped'],
    ['split'], ['el_split'], ['linear', 'heads together'], ['linear', 'up'], ['activation'], ['linear', 'down'], ['norm'],
    ['linear', 'logits'], ['softmax']];
  const IN_LAYER = [2, 13]; // of these, which a layer has

  function boxes(now) {
    const lines = ORDER.map(([op, name]) => {
      const box = now.boxes.find(each => each.op === op && (!name || each.name === name));
      const found = { title: name || ops[op].title, href: ops[op].href, links: ops[op].links };
      return box ? { ...found, bytes: box.bytes, says: `${op === 'norm' ? 'two, each ' : ''}${box.shape}; ` +
        `${say('bytes', box.bytes)}, ${say('operations', box.operations)} operations` } : found;
    });
    const [first, last] = IN_LAYER;
    return flow([{ boxes: lines.slice(0, first) }, { times: now.sizes.S, boxes: lines.slice(first, last + 1) },
      { boxes: lines.slice(last + 1) }]);
  }

  function cache(now) {
    const plan = inputs.plan.value, { S, D, G, K } = now.sizes, isShared = plan === 'split' || plan === 'el';
    const N = steps[0].texts[0].ids.length, held = new Map();
    now.texts.forEach(({ bricks }) => bricks.forEach(brick => held.set(brick.id, brick)));
    const bytes = Array.from(held.values()).reduce((sum, { kind }) => sum + 4 * S * (kind === 'h' ? D : 2 * G * K), 0);
    const title = plan === 'none'
      ? `Nothing is kept: ${now.rows} bricks are computed in this step, and dropped.`
      : `${held.size} bricks, ${say('bytes', bytes)}${now.copied ? `; ${now.copied} were copied after the last step` : ''}.`;
    const kindOf = ({ copyOf, kind, position }) => plan === 'none' ? 'again' : copyOf !== undefined ? 'copy'
      : kind === 'h' ? 'half' : position < N ? 'prompt' : 'own';
    const line = (name, bricks) => element('p', { class: 'anatomy-bricks' }, element('span', {}, name),
      element('span', {}, ...bricks.map(brick => element('i', { class: `anatomy-${kindOf(brick)}` }))));
    const lines = now.texts.map(({ bricks }, w) => line(`text ${w + 1}`, bricks.slice(isShared ? N : 0)));
    if (isShared) lines.unshift(line('prompt', now.texts[0].bricks.slice(0, N)));
    const legend = { el: 'Half a brick: hidden states, for all heads, in place of keys and values.',
      mqa: 'One head of keys and values for all query heads: in each layer, a brick has an eighth of the bytes.' }[plan] || '';
    return [element('p', {}, title), ...lines, element('p', {}, plan === 'none'
      ? 'Empty: computed again at each step.' : `A line across: a copy. ${legend}`)];
  }

  function attention(now) {
    const pick = (name, title, count) => {
      const control = element('select', { id: `anatomy-${name}` },
        ...Array.from({ length: count }, (_, i) => element('option', { value: i }, String(i + 1))));
      choice[name] = Math.min(choice[name], count - 1);
      control.value = choice[name];
      control.addEventListener('change', () => {
        choice[name] = Number(control.value);
        draw();
      });
      return element('div', { class: 'live-control' }, element('label', { for: control.id }, title), control);
    };
    const picks = element('div', { class: 'live-controls' }, pick('layer', 'Layer', now.sizes.S),
      pick('head', 'Head', now.sizes.H), pick('beam', 'Text', now.texts.length));
    const weights = now.weights[choice.layer][choice.beam][choice.head];
    const words = now.texts[choice.beam].words, most = Math.max(...weights);
    const map = look(words, weights, weight => `${inDigits(100 * weight)} %`);
    const first = weights.indexOf(most);
    worker.postMessage({ look: { at, ...choice }, run });
    return [picks, map, element('p', {}, `Most of all at "${visible(words[first])}": ${inDigits(100 * most)} %.`)];
  }

  function inside({ looked: { q, positions }, look }) {
    if (look.at !== at || look.layer !== choice.layer || look.head !== choice.head || look.beam !== choice.beam) return;
    const words = steps[at].texts[look.beam].words, style = getComputedStyle(root);
    const title = `Query, keys and values of head ${look.head + 1} in layer ${look.layer + 1}`;
    const canvas = strips(q, positions, title, ['--strong', '--mark'].map(name => style.getPropertyValue(name)));
    const isHidden = positions.some(({ h }) => h);
    panels.strips.replaceChildren(canvas, element('p', {}, `Above: the query of "${visible(words[words.length - 1])}". ` +
      `Below: a line for each position, its key on the left and its value on the right.` +
      `${isHidden ? ' Positions of the prompt have their hidden state instead.' : ''}`));
  }

  function logits({ candidates, chosen, texts }) {
    const most = Math.max(...candidates.map(({ score }) => score));
    const isChosen = each => each.ends || chosen.some(({ parent, token }) => parent === each.parent && token === each.token);
    const rows = candidates.map(each => {
      const bar = element('span', { class: `live-bar${isChosen(each) ? ' live-point' : ''}` });
      bar.style.width = `${70 * Math.exp(each.score - most)}%`;
      const name = `${each.ends ? '\u25a0 ' : isChosen(each) ? '\u2713 ' : ''}${texts.length > 1 ? `text ${each.parent + 1} + ` : ''}${visible(each.word)}`;
      return element('tr', {}, element('th', { scope: 'row' }, name), element('td', {}, bar, inDigits(each.score)));
    });
    return element('table', { class: 'live-bars' }, element('tbody', {}, ...rows));
  }

  const COLUMN = 74, LINE = 22;
  const short = word => word.length > 8 ? `${word.slice(0, 7)}\u2026` : word;
  function tree() {
    const columns = Math.max(2, Math.min(6, Math.floor((panels.tree.clientWidth || 444) / COLUMN)));
    const shownSteps = steps.slice(0, at + 1).filter(({ chosen }) => chosen.length).slice(-columns), W = Math.max(...shownSteps.map(({ chosen }) => chosen.length), 1);
    const width = COLUMN * shownSteps.length + 4, height = LINE * W + 4;
    const svg = drawn('svg', { class: 'mdf', viewBox: `0 0 ${width} ${height}`, width, role: 'img',
      'aria-label': `The last ${shownSteps.length} steps: which text goes on from which` });
    shownSteps.forEach(({ chosen, candidates }, column) => chosen.forEach(({ parent, token }, w) => {
      const x = COLUMN * column + 14, y = LINE * w + 15, goesOn = shownSteps[column + 1];
      const isOn = !goesOn || goesOn.chosen.some(next => next.parent === w);
      const found = candidates.find(each => each.token === token && each.parent === parent);
      if (column > 0) svg.append(drawn('path', { class: 'line', d: `M${x - 14} ${LINE * parent + 11}L${x - 2} ${y - 4}` }));
      svg.append(drawn('text', { x, y, 'font-size': 12, class: isOn ? '' : 'faint' }, short(visible(found ? found.word : '?'))));
    }));
    return svg;
  }

  // ---- All together ---------------------------------------------------------------------------------------------------

  controls.addEventListener('submit', event => { event.preventDefault(); restart(); });
  Object.entries({ back, step: () => { stop(); forward(); }, play, again: restart }).forEach(
    ([name, act]) => inputs[name].addEventListener('click', act));
  ['text', 'plan', 'search', 'W', 'temperature', 'topK', 'topP', 'seed', 'newTokens'].forEach(
    name => inputs[name].addEventListener('change', restart));
  document.addEventListener('keydown', event => {
    if (event.target.matches('input, select, textarea') || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === 'ArrowRight') { stop(); forward(); }
    if (event.key === 'ArrowLeft') back();
  });
  const isServed = window.location.protocol !== 'file:';
  root.querySelector('.live-without').remove();
  if (isServed) {
    root.append(controls, status, picture);
    restart();
  } else root.append(element('p', {}, 'Browsers let no page that is opened as a file read its model. Serve the folder: ',
    element('code', {}, 'python -m http.server'), ', and open ', element('code', {}, 'http://localhost:8000'), '.'));
})();
