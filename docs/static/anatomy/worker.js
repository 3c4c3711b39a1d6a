// Computes beside the page: loads a model, and does a step of a generation whenever the page asks for one.
'use strict';
importScripts('engine.js');
const { Model, generate } = self.minidecodeEngine;
const models = {};
let latest = 0, run = null, model = null, insides = []; // what each step's layers hold, for those who look

async function load(name) {
  const [header, packed] = await Promise.all([`${name}.json`, `${name}.bin.gz`].map(async file => {
    const answer = await fetch(file);
    if (!answer.ok) throw new Error(`${file} is not there: ${answer.status} ${answer.statusText}`);
    return file.endsWith('.json') ? answer.json() : answer.arrayBuffer();
  }));
  // Some servers unpack a .gz on the way: then its first two bytes are not gzip's.
  const isPacked = new Uint16Array(packed.slice(0, 2))[0] === 0x8b1f;
  const bytes = isPacked
    ? await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer() : packed;
  return new Model(header, bytes);
}

// One head of one layer: the newest token's query; of each position the key and the value, or the hidden state.
function inside({ at, layer, head, beam }) {
  const { H, G, K } = model, { queries, bricks } = insides[at], g = Math.floor(head * G / H);
  const part = (all, i) => all.slice(i * K, (i + 1) * K);
  return { q: part(queries[layer][beam], head), positions: bricks[beam].map(({ layers }) => {
    const { k, v, h } = layers[layer];
    return k ? { k: part(k, g), v: part(v, g) } : { h };
  }) };
}

// Each message has the number of its run; the answers of an earlier one are not sent.
self.onmessage = async ({ data }) => {
  try {
    if (data.start) {
      const { name, text, options } = data.start;
      [latest, run, insides] = [data.run, null, []];
      models[name] = models[name] || await load(name);
      if (data.run !== latest) return;
      model = models[name];
      const prompt = model.tokenizer.encode(text), most = model.N - options.newTokens;
      if (!prompt.length || prompt.length > most)
        throw new Error(`The text has ${prompt.length} tokens. It needs at least 1, and at most ${most}.`);
      run = generate(model, prompt, options);
    }
    if (data.run !== latest || !run) return;
    if (data.look) return postMessage({ looked: inside(data.look), look: data.look, run: latest });
    const { value, done } = run.next();
    if (done) return;
    const { inside: held, ...shown } = value, words = ids => ids.map(id => model.tokenizer.decode([id]));
    insides.push(held);
    postMessage({
      ...shown,
      run: latest,
      texts: value.texts.map(text => ({ ...text, words: words(text.ids) })),
      candidates: value.candidates.map(candidate => ({ ...candidate, word: model.tokenizer.decode([candidate.token]) })),
      text: value.result && model.tokenizer.decode(value.result),
      sizes: { S: model.S, H: model.H, D: model.D, G: model.G, K: model.K },
    });
  } catch (error) {
    postMessage({ error: error.message, run: data.run });
  }
};
