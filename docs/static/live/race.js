// The front page: a run of a kernel as a table of accesses. The reader chooses two that race, and gets a verdict.
// tests/tutorials/test_live.py compares the verdict on all pairs with what the emulator reports.
(function (exports) {
  'use strict';

  const VERBS = { true: 'writes', false: 'reads' };
  const said = a => `thread ${a.thread} ${VERBS[a.writes]} ${a.element} (line ${a.line})`;

  // Two accesses race if two threads touch one element, one of them writes, and no barrier lies between.
  exports.races = (a, b) =>
    a.thread !== b.thread && a.element === b.element && (a.writes || b.writes) && a.epoch === b.epoch;

  exports.verdict = function (a, b, why) {
    if (exports.races(a, b)) {
      const [one, two] = a.writes ? [b, a] : [a, b];
      return `A race: ${said(one)}, ${said(two)}, and no barrier lies between. Either may come first, ` +
        `so a right answer is luck. ${why}`;
    }
    if (a.thread === b.thread) return `No race: both are of thread ${a.thread}, and a thread keeps its own order.`;
    if (a.element !== b.element) return `No race: ${a.element} and ${b.element} are two elements.`;
    if (!a.writes && !b.writes) return 'No race: both read, so neither changes what the other finds. One must write.';
    return 'No race: a barrier lies between them. All threads have passed the first before any begins the second.';
  };

  function build(figure, page) {
    const rows = [...figure.querySelectorAll('tr[data-access]')], chosen = [];
    const verdict = document.createElement('p'), again = document.createElement('button');
    verdict.setAttribute('role', 'status');
    verdict.className = 'live-verdict';
    again.type = 'button';
    again.textContent = 'Start again';

    const buttons = rows.map((row, k) => {
      const cell = row.lastElementChild, button = document.createElement('button');
      button.type = 'button';
      button.textContent = cell.textContent;
      button.setAttribute('aria-label', said(page.accesses[k]));
      button.addEventListener('click', () => choose(k));
      cell.replaceChildren(button);
      return button;
    });

    function choose(k) {
      if (chosen.length === 2) chosen.length = 0;
      const at = chosen.indexOf(k);
      if (at < 0) chosen.push(k); else chosen.splice(at, 1);
      show();
    }

    function show() {
      buttons.forEach((button, k) => {
        button.setAttribute('aria-pressed', chosen.includes(k));
        rows[k].classList.toggle('live-chosen', chosen.includes(k));
      });
      const pair = chosen.map(k => page.accesses[k]);
      const found = pair.length === 2 && exports.races(...pair);
      verdict.classList.toggle('live-found', found);
      verdict.textContent = pair.length === 2 ? exports.verdict(...pair, page.why)
        : pair.length ? `Chosen: ${said(pair[0])}. Choose the access that races with it.` : 'Choose two accesses.';
    }

    again.addEventListener('click', () => { chosen.length = 0; show(); buttons[0].focus(); });
    figure.querySelector('.live-table').after(verdict, again);
    show();
  }

  if (typeof document === 'object') {
    document.querySelectorAll('figure[data-live-race]').forEach(
      figure => build(figure, JSON.parse(figure.dataset.liveRace)));
  }
})(typeof module === 'object' ? module.exports : {});
