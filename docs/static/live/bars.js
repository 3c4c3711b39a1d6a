// The figures of costs: sliders for the sizes of a step, and bars that follow them (minidecode/course/costs.py).
// Without this script a page shows the picture that Python drew.
(function () {
  'use strict';
  const { figures, say, factor } = window.minidecodeCosts;

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    made.append(...children);
    return made;
  }

  // The values of a slider: as given, as far as a model's context goes, or all divisors of another size (at most 64).
  function valuesOf(slider, step, context) {
    if (slider.values) return slider.values.filter(v => v <= context || !'NT'.includes(slider.size));
    const whole = step[slider.divides];
    return Array.from({ length: Math.min(64, whole) }, (_, k) => k + 1).filter(n => whole % n === 0);
  }

  function build(figure, page, number) {
    const step = { ...page.models[page.model] };
    const controls = element('div', { class: 'live-controls', role: 'group', 'aria-label': 'Sizes of the step' });
    const table = element('table', { class: 'live-bars mdf' });
    const says = element('p', { class: 'live-says', role: 'status' });
    const inputs = new Map();
    let context = page.contexts[page.model];

    function labelled(name, id, control, output) {
      const label = element('label', { for: id }, name + ' ');
      if (output) label.append(output);
      controls.append(element('div', { class: 'live-control' }, label, control));
    }

    function choice(name, names, chosen, changed) {
      const id = `live-${number}-${name.replaceAll(' ', '-')}`;
      const select = element('select', { id }, ...names.map(n => element('option', { value: n }, n)));
      select.value = chosen;
      select.addEventListener('change', () => { changed(select.value); show(); announce(); });
      labelled(name, id, select);
      return select;
    }

    choice('model', Object.keys(page.models), page.model, take);
    const machine = choice('machine', Object.keys(page.machines), page.machine, () => {});
    choice('bytes of a number', ['2', '4'], String(step.itemsize), value => { step.itemsize = Number(value); });

    page.sliders.forEach(slider => {
      const id = `live-${number}-${slider.size}`;
      const output = element('output', { for: id });
      const input = element('input', { id, type: 'range', min: 0, step: 1 });
      input.addEventListener('input', () => { read(); show(); });
      input.addEventListener('change', announce);
      labelled(slider.name, id, input, output);
      inputs.set(slider, { input, output });
    });

    // A model brings sizes of its own; the request stays.
    function take(model) {
      const { B, W, N, T, itemsize } = step;
      Object.assign(step, page.models[model], { B, W, N, T, itemsize });
      context = page.contexts[model];
      inputs.forEach(({ input }, slider) => {
        const values = valuesOf(slider, step, context);
        input.max = values.length - 1;
        input.value = values.reduce((best, v, k) => v <= step[slider.size] ? k : best, 0);
      });
      read();
    }

    function read() {
      inputs.forEach(({ input, output }, slider) => {
        const value = valuesOf(slider, step, context)[Number(input.value)];
        step[slider.size] = value;
        output.textContent = value.toLocaleString('en');
        input.setAttribute('aria-valuetext', `${value} ${slider.name}`);
      });
    }

    const numbers = () => figures[page.kind](step, page.machines[machine.value]);

    function words(what, of, name, k) {
      const first = Object.values(of)[0];
      return say(what, of[name]) + (k && first ? `, ${factor(of[name], first)}` : '');
    }

    function show() {
      table.replaceChildren(...Object.entries(numbers()).map(([what, of]) => {
        const most = Math.max(...Object.values(of)) || 1, names = Object.keys(of);
        return element('tbody', {},
          element('tr', {}, element('th', { colspan: 2, scope: 'rowgroup' }, what)),
          ...names.map((name, k) => {
            const bar = element('span', { class: `live-bar${k === names.length - 1 ? ' live-point' : ''}` });
            bar.style.width = `${55 * of[name] / most}%`;
            return element('tr', {}, element('th', { scope: 'row' }, name),
              element('td', {}, bar, element('span', {}, words(what, of, name, k))));
          }));
      }));
    }

    // For those who hear the page: the first group of bars in a sentence, when a control comes to rest.
    function announce() {
      const [what, of] = Object.entries(numbers())[0];
      says.textContent = `${what}: ` + Object.keys(of).map((n, k) => `${n} ${words(what, of, n, k)}`).join('; ');
    }

    take(page.model);
    show();
    announce();
    figure.querySelector('.md-frames').classList.add('live-replaced');
    figure.append(controls, table, says);
  }

  document.querySelectorAll('figure[data-live]').forEach(
    (figure, k) => build(figure, JSON.parse(figure.dataset.live), k));
})();
