// What one decode step holds, moves and computes: minidecode/bench/step_costs.py once more, for the reader's browser.
// tests/tutorials/test_live.py runs both on 200 random settings, and they must agree. Change both or neither.
//
// s is a step: S layers of width D, H query and G key/value heads of width K, feed-forward width F (`ups` matrices up),
// V words; W beams for each of B sentences, N prompt positions, T generated ones, itemsize bytes of a number.
// machine has bandwidth (bytes a second) and operations (a second). A cost is {bytes, operations}.
(function (exports) {
  'use strict';

  const OWN = 'each beam its own', ONCE = 'prompt kept once';
  const HELD = 'bytes held', MOVED = 'bytes moved in a step', OPERATIONS = 'operations of a step';
  const REORDERED = 'bytes copied if all beams change places', SECONDS = 'seconds of a step, at the least';
  const SWAPPED = 'bytes copied if two beams change places', COPYING = 'seconds to copy for all beams, at the least';

  const rows = s => s.B * s.W;
  const add = costs => costs.reduce(
    (a, b) => ({ bytes: a.bytes + b.bytes, operations: a.operations + b.operations }), { bytes: 0, operations: 0 });
  const times = (n, cost) => ({ bytes: n * cost.bytes, operations: n * cost.operations });

  // The roofline: moving and computing overlap, and the slower one decides.
  const seconds = (machine, cost) => Math.max(cost.bytes / machine.bandwidth, cost.operations / machine.operations);

  // Matrices of one layer, and the one that makes the scores of all words: [inputs, outputs].
  const layerMatrices = s => [[s.D, (s.H + 2 * s.G) * s.K], [s.H * s.K, s.D], [s.D, s.ups * s.F], [s.F, s.D]];
  const matrices = s => [].concat(...Array(s.S).fill(layerMatrices(s)), [[s.D, s.V]]);

  const weightBytes = s => s.itemsize * matrices(s).reduce((sum, [inputs, outputs]) => sum + inputs * outputs, 0);

  // R rows meet each matrix: rows, weights and results move once; a multiplication and an addition for each weight.
  const products = s => add(matrices(s).map(([inputs, outputs]) => ({
    bytes: s.itemsize * (rows(s) * (inputs + outputs) + inputs * outputs),
    operations: 2 * rows(s) * inputs * outputs,
  })));

  const positions = (s, cache) => cache === OWN ? rows(s) * (s.N + s.T) : s.B * s.N + rows(s) * s.T;
  const heldBytes = (s, cache) => s.S * positions(s, cache) * 2 * s.G * s.K * s.itemsize;

  // Each stored position is read once. Each row and query head scores every position that it sees, and sums its value.
  const attention = (s, cache) => times(s.S, {
    bytes: s.itemsize * (rows(s) * s.H * 2 * s.K + positions(s, cache) * s.G * 2 * s.K),
    operations: 2 * rows(s) * (s.N + s.T) * s.H * 2 * s.K,
  });

  // Rows that go on from another one if `moving` beams of each sentence change places. One beam alone has no other.
  const movingRows = (s, moving) => s.W === 1 ? 0 : s.B * moving;

  // Keys and values, or numbers of a table, are read in one row and written in another.
  const reorderedBytes = (s, cache, moving) =>
    2 * s.S * 2 * movingRows(s, moving) * s.G * s.K * (cache === OWN ? s.N + s.T : s.T) * s.itemsize;
  const tableBytes = (s, moving) => 2 * s.S * movingRows(s, moving) * s.T * 8;

  // EL, section 3.3: a step's attention to a source of N positions, as three groups of products, each a kernel.
  const EL_METHODS = ['cache per beam', 'cache per sentence', 'el'];
  function elGroups(s, method) {
    const R = rows(s), square = { bytes: (2 * R * s.D + s.D * s.D) * s.itemsize, operations: 2 * R * s.D * s.D };
    const scores = 2 * R * s.H * s.N; // written and read
    if (method === 'el') {
      const moved = 2 * s.D * s.D + 2 * R * s.D + 2 * R * s.H * s.D; // W_K, W_V; q, q', x, the result
      const projections = { bytes: moved * s.itemsize, operations: 4 * R * s.D * s.D };
      const hidden = 2 * s.B * s.N * s.D + 2 * R * s.H * s.D + scores;
      return [add([square, square, projections]),
        { bytes: hidden * s.itemsize, operations: 4 * R * s.H * s.N * s.D }];
    }
    const copies = method === 'cache per beam' ? R : s.B;
    return [add([square, square]),
      { bytes: (2 * copies * s.N * s.D + 2 * R * s.D + scores) * s.itemsize, operations: 4 * R * s.N * s.D }];
  }
  function inputBytes(s, method) {
    const hidden = s.N * s.D * s.itemsize; // of one row of the batch
    return { 'cache per beam': 2 * s.S * rows(s) * hidden, 'cache per sentence': 2 * s.S * s.B * hidden,
      el: s.B * hidden }[method];
  }

  // The numbers of the figures: {what: {who: number}}.
  const each = (names, f) => Object.fromEntries(names.map(name => [name, f(name)]));
  const moved = (names, costOf, machine) => ({
    [MOVED]: each(names, name => costOf(name).bytes),
    [OPERATIONS]: each(names, name => costOf(name).operations),
    [SECONDS]: each(names, name => seconds(machine, costOf(name))),
  });

  exports.figures = {
    cache(s, machine) {
      const parts = { weights: products(s), cache: attention(s, OWN) };
      return { [HELD]: { weights: weightBytes(s), cache: heldBytes(s, OWN) },
        ...moved(['weights', 'cache'], name => parts[name], machine) };
    },
    reorder(s, machine) {
      const copied = moving => ({ 'new arrays': 2 * heldBytes(s, OWN), // read and written
        'in place': reorderedBytes(s, OWN, moving), 'a table': tableBytes(s, moving) });
      const all = copied(s.W);
      return { [REORDERED]: all, [SWAPPED]: copied(2),
        [COPYING]: each(Object.keys(all), way => seconds(machine, { bytes: all[way], operations: 0 })),
        [MOVED]: { weights: products(s).bytes, cache: attention(s, OWN).bytes } };
    },
    beams(s, machine) {
      const names = [OWN, ONCE];
      return { [HELD]: each(names, cache => heldBytes(s, cache)),
        [REORDERED]: each(names, cache => reorderedBytes(s, cache, s.W)),
        ...moved(names, cache => attention(s, cache), machine) };
    },
    heads(s, machine) {
      const steps = { 'multi-head': { ...s, G: s.H }, grouped: s, 'multi-query': { ...s, G: 1 } };
      const names = Object.keys(steps);
      return { [HELD]: each(names, name => heldBytes(steps[name], OWN)),
        ...moved(names, name => add([products(steps[name]), attention(steps[name], OWN)]), machine) };
    },
    el(s, machine) {
      const cost = method => times(s.S, add(elGroups(s, method)));
      return { [HELD]: each(EL_METHODS, method => inputBytes(s, method)), ...moved(EL_METHODS, cost, machine),
        [SECONDS]: each(EL_METHODS, method => // the groups follow each other, so their seconds add
          s.S * elGroups(s, method).reduce((sum, group) => sum + seconds(machine, group), 0)) };
    },
  };

  // The cache of the front page, in bricks: one for what a row holds of one position.
  exports.bricks = (W, N, T) => ({ own: W * (N + T), once: N + W * T, copies: (W - 1) * N });

  // A number in three digits, with its unit: 1.23 GB, 45.6 G, 7.89 ms.
  const STEPS = {
    bytes: [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'bytes']],
    operations: [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']],
    seconds: [[1, 's'], [1e-3, 'ms'], [1e-6, 'us']],
  };
  exports.say = function (what, number) {
    if (number === 0) return '0';
    const steps = STEPS[what.split(' ')[0]];
    const [size, unit] = steps.find(([least]) => number >= 0.9995 * least) || steps[steps.length - 1];
    const text = unit === 'bytes' || unit === '' ? String(Math.round(number)) : exports.inDigits(number / size);
    return text + (unit && ' ' + unit);
  };
  exports.factor = function (number, first) {
    if (!(number > 0 && number < 0.1 * first)) return `${exports.inDigits(number / first)}x`;
    const times = first / number, digits = String(Math.floor(times)).length;
    const unit = digits > 3 ? 10 ** (digits - 3) : 1;
    return `1/${(Math.round(times / unit) * unit).toLocaleString('en')} of the first`;
  };
  exports.inDigits = number => number >= 100 ? String(Math.round(number)) : number.toPrecision(3);
})(typeof module === 'object' ? module.exports : (window.minidecodeCosts = {}));
