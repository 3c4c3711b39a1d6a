// Parts of the picture of a step: ops as boxes, attention as a map over the text, and the numbers of a head. The page of
// `minidecode explore` shows a recorded run with them, and docs/anatomy.md one that is computed in the browser.
(function () {
  'use strict';
  const CELL = 4; // pixels of a number

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    Object.entries(attributes || {}).forEach(([name, value]) => made.setAttribute(name, value));
    made.append(...children);
    return made;
  }

  const visible = word => word.replace(/ /g, '\u00b7').replace(/\n/g, '\u23ce').replace(/\t/g, '\u21e5');

  // parts: {times, boxes}, in the order of the forward pass; those of a part that has `times` are layers. A box has a
  // title, and `says` and `bytes` if it is computed; it may have an address, `href`, more to say of it, `tip`, and more
  // addresses, `links`: [name, address].
  function flow(parts) {
    const most = Math.max(1, ...parts.flatMap(({ boxes }) => boxes.map(({ bytes }) => bytes || 0)));
    const line = ({ title, says, bytes, href, tip, links = [] }) => {
      const name = href ? element('a', { href }, title) : element('span', { class: 'anatomy-name' }, title);
      if (says === undefined) return element('li', { class: 'anatomy-box' }, name);
      const bar = element('span', { class: 'anatomy-bar', style: `width:${(100 * bytes / most).toFixed(1)}%` });
      return element('li', { class: 'anatomy-box anatomy-lit', ...(tip && { title: tip }) },
        name, element('span', { class: 'anatomy-shape' }, says),
        ...links.map(([text, to]) => element('a', { class: 'anatomy-link', href: to }, text)), bar);
    };
    return element('ol', { class: 'anatomy-flow' }, ...parts.flatMap(({ times, boxes }) => times
      ? [element('li', { class: 'anatomy-layer' }, element('span', {}, `${times} equal layers, added up:`),
        element('ol', {}, ...boxes.map(line)))]
      : boxes.map(line)));
  }

  // How much a head looks at each word: the darker, the more; the largest weight is darkest.
  function look(words, weights, percent) {
    const most = Math.max(...weights);
    return element('p', { class: 'anatomy-text' }, ...words.map((word, i) => element('span', { class: 'anatomy-look',
      style: `--weight:${(most ? weights[i] / most : 0).toFixed(3)}`, title: percent(weights[i]) }, visible(word))));
  }

  // The query of the newest token, and what it meets: a line for each position, a cell for each feature of the head.
  // positions: {k, v}, or {h} of one whose hidden state is kept. Each strip is as dark as its own largest number.
  function strips(q, positions, title, [above, below]) {
    const K = q.length, CELLS = 2 * K + 1;
    const canvas = element('canvas', { width: CELLS * CELL, height: (positions.length + 2) * CELL, role: 'img',
      'aria-label': title });
    const context = canvas.getContext('2d');
    function strip(array, line, cells, left) { // an array that is longer has several features a cell
      const most = array.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9), each = array.length / cells;
      for (let i = 0; i < cells; i++) {
        const value = array[Math.floor(i * each)] / most;
        context.globalAlpha = Math.abs(value);
        context.fillStyle = value > 0 ? above : below;
        context.fillRect(CELL * (left + i), line * CELL, CELL, CELL - 1);
      }
    }
    strip(q, 0, K, 0);
    positions.forEach(({ k, v, h }, n) => {
      if (h) strip(h, n + 2, CELLS, 0);
      else [[k, 0], [v, K + 1]].forEach(([array, left]) => strip(array, n + 2, K, left));
    });
    return canvas;
  }

  globalThis.minidecodePicture = { element, visible, flow, look, strips };
})();
