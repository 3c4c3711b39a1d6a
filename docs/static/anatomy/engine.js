// Decoding in a browser: GPT-2's forward pass, five ways to keep the past, greedy search, sampling and beam search.
// tests/tutorials/test_anatomy.py compares its tokens, and the costs of its boxes, with the package's own.
//
// Letters: R rows that are computed, T positions, D features, H query heads and G key/value heads of K features, F inner
// features, V tokens of the vocabulary, S layers, W texts that run (beams).
(function (exports) {
  'use strict';

  // ---- The tokenizer: bytes, merged pair by pair -------------------------------------------------------------------

  const PIECES = /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu; // GPT-2's

  // Each byte has a letter that can be printed; those that have none of their own get the letters from 256 on.
  const LETTERS = (() => {
    const printed = b => (b > 32 && b < 127) || (b > 160 && b !== 173 && b < 256);
    let next = 256;
    return Array.from({ length: 256 }, (_, b) => String.fromCharCode(printed(b) ? b : next++));
  })();

  class Tokenizer {
    constructor({ vocabulary, merges, eos }) {
      this.special = vocabulary[eos]; // typed, it is one token
      this.words = vocabulary;
      this.ids = new Map(vocabulary.map((word, id) => [word, id]));
      this.rank = new Map(merges.map((pair, rank) => [pair, rank]));
      this.byte = new Map(LETTERS.map((letter, b) => [letter, b]));
    }

    encode(text) {
      const ids = part => (part.match(PIECES) || []).flatMap(piece => this.merged(piece).map(word => this.ids.get(word)));
      return text.split(this.special).map(ids).reduce((before, after) => [...before, this.ids.get(this.special), ...after]);
    }

    merged(piece) {
      let words = Array.from(new TextEncoder().encode(piece), b => LETTERS[b]);
      for (;;) {
        const ranks = words.slice(1).map((word, i) => this.rank.get(`${words[i]} ${word}`) ?? Infinity);
        const first = ranks.indexOf(Math.min(...ranks, Infinity));
        if (first < 0 || ranks[first] === Infinity) return words;
        const [left, right] = words.slice(first, first + 2), joined = [];
        for (let i = 0; i < words.length; i++) {
          const here = words[i] === left && words[i + 1] === right;
          joined.push(here ? left + right : words[i]);
          if (here) i++;
        }
        words = joined;
      }
    }

    decode(ids) {
      const letters = ids.map(id => this.words[id]).join('');
      return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(letters, letter => this.byte.get(letter)));
    }
  }

  // ---- The model: int8 matrices, each output's weights side by side, and a scale for each output ---------------------

  function halfToFloat(bits) {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  }

  const toFloats = halves => Float32Array.from(halves, halfToFloat);

  // Each output's largest weight becomes 127, and halves go to the even neighbour: `quantize_weight` in low_precision.py.
  function quantized(weights_VD, V, D) {
    const data = new Int8Array(V * D), scale = new Float32Array(V);
    for (let v = 0; v < V; v++) {
      const row = weights_VD.subarray(v * D, (v + 1) * D);
      scale[v] = row.reduce((most, w) => Math.max(most, Math.abs(w)), 0) / 127;
      for (let d = 0; d < D; d++) {
        const ratio = Math.fround(row[d] / scale[v]), down = Math.floor(ratio), over = ratio - down;
        data[v * D + d] = over > 0.5 || (over === 0.5 && down % 2 !== 0) ? down + 1 : down;
      }
    }
    return { data, scale, bias: null };
  }

  class Model {
    constructor(header, buffer) {
      const kinds = { int8: Int8Array, float16: Uint16Array, float32: Float32Array };
      const read = ([kind, offset, size]) => new kinds[kind](buffer, offset, size);
      const weight = ([data, scale, bias]) => ({ data: read(data), scale: read(scale), bias: read(bias) });
      Object.assign(this, header.sizes); // S, D, H, G, K, F, V, N: the most positions
      this.eos = header.eos;
      this.epsilon = header.epsilon;
      this.tokenizer = new Tokenizer(header);
      this.wte_VD = toFloats(read(header.wte));
      this.wpe_ND = toFloats(read(header.wpe));
      this.blocks = header.blocks.map(block => ({
        qkv: weight(block.qkv), out: weight(block.out), up: weight(block.up), down: weight(block.down),
        ln_1: block.ln_1.map(read), ln_2: block.ln_2.map(read),
      }));
      this.ln_f = header.ln_f.map(read);
      this.head = quantized(this.wte_VD, this.V, this.D);
    }

    // x W^T * scale + bias, a row after the other for each output: its weights are then at hand.
    linear(x, R, { data, scale, bias }) {
      const inputs = x.length / R, outputs = scale.length, y = new Float32Array(R * outputs);
      for (let o = 0; o < outputs; o++) {
        const w = o * inputs;
        for (let r = 0; r < R; r++) {
          const from = r * inputs;
          let a = 0, b = 0, c = 0, d = 0; // four sums, so that none waits for the one before
          for (let i = 0; i < inputs; i += 4) {
            a += data[w + i] * x[from + i];
            b += data[w + i + 1] * x[from + i + 1];
            c += data[w + i + 2] * x[from + i + 2];
            d += data[w + i + 3] * x[from + i + 3];
          }
          y[r * outputs + o] = Math.fround(a + b + c + d) * scale[o] + (bias ? bias[o] : 0);
        }
      }
      return y;
    }

    norm(x, R, [gain, bias]) {
      const { D, epsilon } = this, h = new Float32Array(R * D);
      for (let r = 0; r < R; r++) {
        let mean = 0, square = 0;
        for (let d = 0; d < D; d++) mean += x[r * D + d] / D;
        for (let d = 0; d < D; d++) square += (x[r * D + d] - mean) ** 2 / D;
        const scale = 1 / Math.sqrt(square + epsilon);
        for (let d = 0; d < D; d++) h[r * D + d] = (x[r * D + d] - mean) * scale * gain[d] + bias[d];
      }
      return h;
    }

    // rows: {token, position, sees, brick}: what it looks at, and where its keys and values go; both are bricks.
    // Result, of the rows in `picks`: logits, and by layer their queries and how much each head looks at each brick.
    forward(rows, picks, keepsHidden) {
      const { D, V, H, K, G } = this, R = rows.length, weights = [], queries = [];
      let x = new Float32Array(R * D);
      rows.forEach(({ token, position }, r) => {
        for (let d = 0; d < D; d++) x[r * D + d] = this.wte_VD[token * D + d] + this.wpe_ND[position * D + d];
      });
      const added = (a, b) => a.map((value, i) => value + b[i]);
      this.blocks.forEach((block, layer) => {
        const h = this.norm(x, R, block.ln_1), qkv = this.linear(h, R, block.qkv);
        this.append(rows, layer, qkv, keepsHidden ? h : null);
        const [a, seen] = this.attend(rows, layer, qkv, picks);
        weights.push(seen);
        queries.push(picks.map(r => qkv.slice(r * (H + 2 * G) * K, (r * (H + 2 * G) + H) * K)));
        x = added(x, this.linear(a, R, block.out));
        const f = this.linear(this.norm(x, R, block.ln_2), R, block.up).map(gelu);
        x = added(x, this.linear(f, R, block.down));
      });
      const picked = new Float32Array(picks.length * D);
      picks.forEach((r, i) => picked.set(x.subarray(r * D, (r + 1) * D), i * D));
      const logits = this.linear(this.norm(picked, picks.length, this.ln_f), picks.length, this.head);
      return { logits: picks.map((_, i) => logits.slice(i * V, (i + 1) * V)), weights, queries };
    }

    append(rows, layer, qkv, h) {
      const { D, H, G, K } = this, X = (H + 2 * G) * K;
      rows.forEach(({ brick }, r) => {
        const k = r * X + H * K, v = k + G * K;
        brick.layers[layer] = { k: qkv.slice(k, v), v: qkv.slice(v, v + G * K), h: h && h.slice(r * D, (r + 1) * D) };
      });
    }

    // softmax(q . k / sqrt(K)) v. A brick without keys has hidden states: their score is (W_k q) . h, and the sum of
    // hidden states becomes values at the end (EL, equations 7 to 10). q . b_k is the same for all of them, but not for
    // bricks with keys: so it is added.
    attend(rows, layer, qkv, picks) {
      const { D, H, G, K } = this, X = (H + 2 * G) * K, a = new Float32Array(rows.length * H * K);
      const weight = this.blocks[layer].qkv, seen = picks.map(() => []), scale = 1 / Math.sqrt(K);
      rows.forEach(({ sees }, r) => {
        for (let head = 0; head < H; head++) {
          const q = qkv.subarray(r * X + head * K, r * X + (head + 1) * K), g = Math.floor(head * G / H);
          const parts = sees.map(brick => brick.layers[layer]);
          const hidden = parts.some(part => !part.k) && this.throughKeys(q, g, weight);
          const scores = parts.map(part => scale * (part.k
            ? dot(q, part.k.subarray(g * K, (g + 1) * K)) : dot(hidden.q, part.h) + hidden.bias));
          const most = Math.max(...scores), e = scores.map(score => Math.exp(score - most));
          const total = e.reduce((sum, value) => sum + value, 0), p = e.map(value => value / total);
          const result = a.subarray((r * H + head) * K, (r * H + head + 1) * K);
          const h = hidden && new Float32Array(D);
          let share = 0; // of the bricks that have hidden states
          parts.forEach((part, n) => {
            if (part.v) for (let u = 0; u < K; u++) result[u] += p[n] * part.v[g * K + u];
            else for (let d = 0; d < D; d++) h[d] += p[n] * part.h[d];
            share += part.v ? 0 : p[n];
          });
          if (hidden) this.throughValues(h, share, g, weight).forEach((value, u) => { result[u] += value; });
          const pick = picks.indexOf(r);
          if (pick >= 0) seen[pick].push(p);
        }
      });
      return [a, seen];
    }

    // W_k^T q and b_k . q, for the rows of W_k that are the keys of key/value head g.
    throughKeys(q, g, { data, scale, bias }) {
      const { D, H, K } = this, result = new Float32Array(D), first = H * K + g * K;
      let of_bias = 0;
      for (let k = 0; k < K; k++) {
        const o = first + k, factor = q[k] * scale[o];
        for (let d = 0; d < D; d++) result[d] += factor * data[o * D + d];
        of_bias += q[k] * bias[o];
      }
      return { q: result, bias: of_bias };
    }

    // W_v h + share * b_v.
    throughValues(h, share, g, { data, scale, bias }) {
      const { D, H, G, K } = this, first = (H + G) * K + g * K;
      return Array.from({ length: K }, (_, u) =>
        dot(h, data.subarray((first + u) * D, (first + u + 1) * D)) * scale[first + u] + share * bias[first + u]);
    }
  }

  function dot(a, b) {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
    return sum;
  }

  const gelu = x => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

  // ---- The past: what each plan keeps of it. A brick is what is kept of one position in all layers ------------------

  const PLANS = {
    none: { name: 'no cache', keeps: 'nothing' },
    cache: { name: 'cache', keeps: 'each' },
    split: { name: 'cache without copies of the prompt', keeps: 'once' },
    el: { name: 'EL-attention', keeps: 'hidden' },
    mqa: { name: 'multi-query', keeps: 'each' },
  };
  let bricks = 0;
  const newBrick = position => ({ id: bricks++, position, layers: [] });
  const copyOf = brick => ({ id: bricks++, position: brick.position, copyOf: brick.id,
    layers: brick.layers.map(({ k, v, h }) => ({ k: k && k.slice(), v: v && v.slice(), h: h && h.slice() })) });

  // texts: {ids, bricks, score}. Computes what is not kept of each, and gives the logits that follow each.
  function compute(model, texts, plan, isPrompt) {
    const rows = [], picks = [];
    texts.forEach(text => {
      if (PLANS[plan].keeps === 'nothing') text.bricks = [];
      for (let position = text.bricks.length; position < text.ids.length; position++) {
        const brick = newBrick(position);
        text.bricks.push(brick);
        rows.push({ token: text.ids[position], position, brick, sees: text.bricks.slice(0, position + 1) });
      }
      picks.push(rows.length - 1);
    });
    const found = model.forward(rows, picks, isPrompt && plan === 'el');
    if (isPrompt && plan === 'el') // hidden states stay in place of the prompt's keys and values
      texts[0].bricks.forEach(brick => brick.layers.forEach(part => { part.k = part.v = null; }));
    return { ...found, rows: rows.length };
  }

  // The texts that go on: {parent, token, score}. A beam that goes on from another one takes over what that one keeps.
  function goOn(texts, chosen, plan, promptLength) {
    const shared = { nothing: 0, each: 0, once: promptLength, hidden: promptLength }[PLANS[plan].keeps];
    let copied = 0;
    const next = chosen.map(({ parent, token, score }, w) => {
      const from = texts[parent];
      const kept = from.bricks.map((brick, n) => {
        if (n < shared || parent === w || PLANS[plan].keeps === 'nothing') return brick;
        copied++;
        return copyOf(brick);
      });
      return { ids: [...from.ids, token], bricks: kept, score, parent };
    });
    return { next, copied };
  }

  // ---- Costs: the formulas of minidecode/catalog.py, for float32 rows and int8 weights ------------------------------

  const cost = {
    embedding: (R, D) => ({ bytes: 16 * R * D + 8 * D + 16 * R, operations: 10 * R * D }),
    linear: (R, inputs, outputs) => ({
      bytes: 4 * R * (inputs + outputs) + inputs * outputs + 4 * outputs, operations: 2 * R * inputs * outputs }),
    heads: (R, X) => ({ bytes: 8 * R * X + 4 * X, operations: R * X }),
    append: (R, X) => ({ bytes: 8 * R * X + 4 * X + 8 * R, operations: R * X }),
    reorder: (copied, X) => ({ bytes: 8 * copied * X, operations: 0 }), // positions, each of X features
    // `read` positions are read; `seen` pairs of a row and a position are scored and summed
    attention: (R, read, seen, H, G, K) => ({ bytes: 8 * R * H * K + 8 * read * G * K, operations: 4 * seen * H * K }),
    el_split: (R, N, own, H, G, K, D) => ({
      bytes: 8 * R * H * K + 4 * N * D + 8 * G * K * D + 8 * G * K + 8 + 8 * own * G * K + 16 * R,
      operations: 4 * R * N * H * D + 4 * R * H * D * K + 4 * own * H * K + 2 * R * H * K }),
    norm: (R, D) => ({ bytes: 16 * R * D + 12 * D, operations: 10 * R * D }),
    activation: (R, F) => ({ bytes: 8 * R * F + 4 * F, operations: 2 * R * F }),
    softmax: (R, V) => ({ bytes: 8 * R * V + 8 * R, operations: 5 * R * V }),
  };

  // What one step computes: {name, op, shape, calls, bytes, operations}. lengths: of the texts; known: how many
  // positions of each are kept from before; N: how many of these are the prompt's; copied: how many bricks were copied
  // for beams that go on from another one.
  function boxesOf({ D, H, G, K, F, V, S }, plan, lengths, known, N, copied = 0) {
    const sum = values => values.reduce((a, b) => a + b, 0), boxes = [];
    const W = lengths.length, R = sum(lengths) - W * known, X = (H + 2 * G) * K, own = sum(lengths) - W * N;
    const seen = sum(lengths.map(n => (n * (n + 1) - known * (known + 1)) / 2));
    const box = (name, op, shape, calls, one) => boxes.push({
      name, op, shape, calls, bytes: calls * one.bytes, operations: calls * one.operations });
    const product = (name, rows, inputs, outputs, calls) => box(
      name, 'linear', `[${rows}, ${inputs}] @ [${inputs}, ${outputs}]`, calls, cost.linear(rows, inputs, outputs));
    if (copied) box('copies', 'reorder', `${copied} bricks`, 2 * S, cost.reorder(copied, G * K));
    box('embedding', 'embedding', `[${R}, ${D}]`, 1, cost.embedding(R, D));
    product('queries, keys, values', R, D, X, S);
    if (known) box('into the cache', 'append', `[${R}, ${X}]`, S, cost.append(R, X));
    else box('heads', 'heads', `[${R}, ${X}]`, S, cost.heads(R, X));
    const attention = (op, one) => box('attention', op, `${R} rows, ${H} heads, ${Math.max(...lengths)} positions`, S, one);
    if (!known) attention('prefill', cost.attention(R, R, seen, H, G, K));
    else if (PLANS[plan].keeps === 'each') attention('grouped', cost.attention(R, seen, seen, H, G, K));
    else if (PLANS[plan].keeps === 'once') attention('split', cost.attention(R, N + own, seen, H, G, K));
    else attention('el_split', cost.el_split(R, N, own, H, G, K, D));
    product('heads together', R, H * K, D, S);
    product('up', R, D, F, S);
    box('GELU', 'activation', `[${R}, ${F}]`, S, cost.activation(R, F));
    product('down', R, F, D, S);
    box('norms', 'norm', `[${R}, ${D}]`, 2 * S, cost.norm(R, D));
    product('logits', W, D, V, 1);
    box('probabilities', 'softmax', `[${W}, ${V}]`, 1, cost.softmax(W, V));
    return boxes;
  }

  // ---- Scores: what may not follow, and draws -----------------------------------------------------------------------

  function banRepeats(scores, ids, n) {
    for (let i = 0; n > 0 && i + n <= ids.length; i++) {
      const tail = ids.slice(ids.length - n + 1);
      if (n === 1 || tail.every((id, j) => ids[i + j] === id)) scores[ids[i + n - 1]] = -Infinity;
    }
  }

  function logSoftmax(scores) {
    const most = scores.reduce((a, b) => Math.max(a, b)), sum = scores.reduce((total, s) => total + Math.exp(s - most), 0);
    return scores.map(s => s - most - Math.log(sum));
  }

  // The best places of an array, ties by place.
  const best = (scores, count) =>
    Array.from(scores.keys()).sort((a, b) => scores[b] - scores[a] || a - b).slice(0, count);

  // Temperature, top-k and top-p, then the largest of score + Gumbel noise (chapter 12).
  function draw(logits, { temperature, topK, topP, seed }, key, step) {
    const scores = logits.map(s => s / temperature);
    let left = best(scores, scores.length).filter(v => scores[v] > -Infinity);
    if (topK) left = left.filter(v => scores[v] >= scores[left[Math.min(topK, left.length) - 1]]);
    if (topP < 1) { // whole units, so that their sums are exact
      const units = left.map(v => Math.floor(Math.exp(scores[v] - scores[left[0]]) * 2 ** 44));
      let mayGo = Math.floor((1 - topP) * units.reduce((a, b) => a + b, 0));
      while (left.length > 1 && units[left.length - 1] <= mayGo) {
        mayGo -= units[left.length - 1];
        left.pop();
      }
    }
    const noise = v => -Math.log(-Math.log((philox([v >> 2, step, ...key], seed)[v & 3] + 0.5) * 2 ** -32));
    const noisy = left.map(v => scores[v] + noise(v));
    return left[noisy.indexOf(Math.max(...noisy))];
  }

  // Philox4x32-10: four random words of a counter. reference/random.py has it.
  function philox(counter, seed) {
    let [c0, c1, c2, c3] = counter.map(BigInt), k0 = BigInt(seed), k1 = 0n;
    for (let round = 0; round < 10; round++) {
      const p0 = c0 * 0xD2511F53n, p1 = c2 * 0xCD9E8D57n;
      [c0, c1, c2, c3] = [(p1 >> 32n) ^ c1 ^ k0, p1 & 0xFFFFFFFFn, (p0 >> 32n) ^ c3 ^ k1, p0 & 0xFFFFFFFFn];
      [k0, k1] = [(k0 + 0x9E3779B9n) & 0xFFFFFFFFn, (k1 + 0xBB67AE85n) & 0xFFFFFFFFn];
    }
    return [c0, c1, c2, c3].map(Number);
  }

  // BLAKE2b (RFC 7693) of 8 bytes, as two words: a text's key for its draws, from its prompt. runtime/draws.py has it.
  const IV = [0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n, 0x510e527fade682d1n,
    0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n];
  const SIGMA = ['0123456789abcdef', 'ea489fd61c02b753', 'b8c052fdae367194', '7931dcbe265a40f8', '905724afe1bc683d',
    '2c6a0b834d75fe19', 'c51fed4a0763928b', 'db7ec13950f4862a', '6fe9b308c2d714a5', 'a2847615fb9e3cd0']
    .map(row => Array.from(row, digit => parseInt(digit, 16)));
  const MASK = (1n << 64n) - 1n;

  function keyOf(ids) {
    const words = new Array(16).fill(0n); // the first block is the key of 16 bytes: copy 0, text 0
    const state = IV.slice(), length = 8 * ids.length;
    state[0] ^= 0x01010000n ^ (16n << 8n) ^ 8n;
    const blocks = [words];
    for (let i = 0; i < ids.length; i += 16)
      blocks.push(Array.from({ length: 16 }, (_, j) => BigInt(ids[i + j] ?? 0)));
    blocks.forEach((block, b) => {
      const isLast = b === blocks.length - 1;
      mix(state, block, BigInt(isLast ? 128 + length : 128 * (b + 1)), isLast);
    });
    return [Number(state[0] & 0xFFFFFFFFn), Number(state[0] >> 32n)];
  }

  function mix(state, block, counted, isLast) {
    const v = [...state, ...IV], turned = (x, n) => ((x >> n) | (x << (64n - n))) & MASK;
    v[12] ^= counted;
    if (isLast) v[14] ^= MASK;
    const g = (a, b, c, d, x, y) => {
      for (const [word, first, second] of [[x, 32n, 24n], [y, 16n, 63n]]) {
        v[a] = (v[a] + v[b] + word) & MASK;
        v[d] = turned(v[d] ^ v[a], first);
        v[c] = (v[c] + v[d]) & MASK;
        v[b] = turned(v[b] ^ v[c], second);
      }
    };
    for (let round = 0; round < 12; round++) {
      const s = SIGMA[round % 10];
      for (let i = 0; i < 4; i++) g(i, 4 + i, 8 + i, 12 + i, block[s[2 * i]], block[s[2 * i + 1]]);
      for (let i = 0; i < 4; i++)
        g(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, block[s[8 + 2 * i]], block[s[9 + 2 * i]]);
    }
    for (let i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
  }

  // ---- The search, a step at a time ---------------------------------------------------------------------------------

  // options: plan, newTokens, ngram, W (beams) or sampling {temperature, topK, topP, seed}. Yields what a step did; the
  // last one has `result`, the tokens that were generated.
  function* generate(model, prompt, options) {
    const { plan, newTokens, ngram } = options, W = options.W || 1, N = prompt.length, key = keyOf(prompt);
    const total = { rows: 0, bytes: 0, operations: 0, copied: 0 }, without = { rows: 0, bytes: 0, operations: 0 };
    let texts = [{ ids: prompt, bricks: [], score: 0, parent: 0 }], finished = Array(W).fill({ score: -1e9, ids: prompt });
    let copied = 0, result = null;
    for (let step = 1; result === null; step++) {
      const known = plan === 'none' || step === 1 ? 0 : N + step - 2, lengths = texts.map(text => text.ids.length);
      const { logits, weights, queries, rows } = compute(model, texts, plan, step === 1);
      const boxes = boxesOf(model, plan, lengths, known, N, copied);
      add(total, rows, boxes);
      add(without, lengths.reduce((a, b) => a + b, 0), boxesOf(model, 'none', lengths, 0, N));
      total.copied += copied;
      const now = { step, boxes, rows, weights, copied, total: { ...total }, without: { ...without }, texts: texts.map(seen),
        inside: { queries, bricks: texts.map(text => text.bricks) } };

      let chosen, candidates;
      if (W === 1) {
        banRepeats(logits[0], texts[0].ids, ngram);
        const token = options.sampling ? draw(logits[0], options.sampling, key, step - 1) : best(logits[0], 1)[0];
        const logprobs = logSoftmax(logits[0]);
        const shown = best(logprobs, 10);
        if (!shown.includes(token)) shown.push(token); // a draw may be an unlikely one
        candidates = shown.map(v => ({ parent: 0, token: v, score: logprobs[v] }));
        chosen = [{ parent: 0, token, score: texts[0].score + logprobs[token] }];
        if (token === model.eos || step === newTokens) result = [...texts[0].ids.slice(N), token];
      } else {
        candidates = logits.flatMap((scores, w) => { // of each beam, as many as could be among the best
          const logprobs = logSoftmax(scores);
          banRepeats(logprobs, texts[w].ids, ngram);
          return best(logprobs, 2 * W).map(v => ({ parent: w, token: v, score: Math.fround(texts[w].score + logprobs[v]) }));
        }).sort((a, b) => b.score - a.score || a.parent - b.parent || a.token - b.token).slice(0, 2 * W);
        chosen = [];
        candidates.forEach((candidate, place) => {
          const { parent, token, score } = candidate;
          if (token === model.eos || step === newTokens) {
            if (place < W) finished.push({ score: score / step, ids: [...texts[parent].ids, token] });
            candidate.ends = place < W;
          } else if (chosen.length < W) chosen.push(candidate);
        });
        finished = finished.map((text, i) => [text, i]).sort((a, b) => b[0].score - a[0].score || a[1] - b[1])
          .slice(0, W).map(([text]) => text);
        if (!chosen.length || chosen[0].score / step <= finished[W - 1].score) result = finished[0].ids.slice(N);
      }
      ({ next: texts, copied } = goOn(texts, chosen, plan, N));
      yield { ...now, candidates, chosen, result };
    }
  }

  function add(total, rows, boxes) {
    total.rows += rows;
    boxes.forEach(box => { total.bytes += box.bytes; total.operations += box.operations; });
  }

  // What a page shows of a text.
  const seen = ({ ids, bricks, parent, score }) => ({ ids, parent, score, bricks: bricks.map(
    ({ id, copyOf, position, layers }) => ({ id, copyOf, position, kind: layers[0].k ? 'kv' : 'h' })) });

  Object.assign(exports, { Tokenizer, Model, PLANS, cost, boxesOf, generate, keyOf, philox });
})(typeof module === 'object' ? module.exports : (self.minidecodeEngine = {}));
