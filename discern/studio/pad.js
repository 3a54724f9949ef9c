// What the action buttons do: a click, or an action's key wherever nothing else waits for it; Backspace undoes.
// One step is taken after the other: what is pressed meanwhile waits, but a key that is held down does not pile up.
const PATIENCE = 2000, GLANCE = 20;
const waiting = [];
const shown = () => document.getElementById('hand')?.innerHTML;
let asked = 0, before = null, timer = null;
const next = () => {
  if (shown() !== before || Date.now() - asked > PATIENCE) {
    [asked, before] = [Date.now(), shown()];
    trigger('select', {index: waiting.shift()});
  }
  timer = waiting.length ? setTimeout(next, GLANCE) : null;
};
const act = button => {
  button.classList.add('pressed');
  setTimeout(() => button.classList.remove('pressed'), 120);
  waiting.push(Number(button.dataset.index));
  if (!timer) next();
};
const TYPED = 'input, textarea, select, [role=slider], [role=listbox], [contenteditable=true], .easel, .tiles';
element.addEventListener('pointerdown', event => { if (event.target.closest('[data-index]')) event.preventDefault(); });
element.addEventListener('click', event => {
  const hit = event.target.closest('[data-index]');
  if (hit) act(hit);
});
document.addEventListener('keydown', event => {
  if (!element.offsetParent || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(TYPED)) return;
  if ((event.key === ' ' || event.key === 'Enter') && event.target.closest('button:not([aria-selected=true])')) return;
  if (event.key === 'Backspace') {
    event.preventDefault();
    document.getElementById('undo').click();
    return;
  }
  const hit = [...element.querySelectorAll('[data-key]')].find(one => one.dataset.key === event.key);
  if (!hit) return;
  event.preventDefault();
  if (!event.repeat || !waiting.length) act(hit);
});
