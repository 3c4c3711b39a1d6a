// Runs docs/static/anatomy/engine.js without a browser. Standard input: {models, cases, costs}; standard output: what
// test_anatomy.py compares.
'use strict';
const fs = require('fs'), path = require('path'), zlib = require('zlib');
const engine = require(path.resolve(__dirname, '../../docs/static/anatomy/engine.js'));

const asked = JSON.parse(fs.readFileSync(0, 'utf8')), models = {};
function model(name) {
  if (!models[name]) {
    const header = JSON.parse(fs.readFileSync(path.join(asked.models, `${name}.json`), 'utf8'));
    const bytes = zlib.gunzipSync(fs.readFileSync(path.join(asked.models, `${name}.bin.gz`)));
    models[name] = new engine.Model(header, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  }
  return models[name];
}

const answers = asked.cases.map(({ name, text, options }) => {
  let last;
  const steps = []; // of each: what all boxes of an op take together
  for (const step of engine.generate(model(name), model(name).tokenizer.encode(text), options)) {
    last = step;
    const ops = {};
    step.boxes.forEach(({ op, calls, bytes, operations }) => {
      const sum = ops[op] = ops[op] || { calls: 0, bytes: 0, operations: 0 };
      sum.calls += calls;
      sum.bytes += bytes;
      sum.operations += operations;
    });
    steps.push(ops);
  }
  return { result: last.result, total: last.total, without: last.without, steps };
});
const costs = asked.costs.map(([op, ...sizes]) => engine.cost[op](...sizes));
process.stdout.write(JSON.stringify({ answers, costs }));
