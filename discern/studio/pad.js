// What the action buttons do: a click, or an action's key wherever nothing else waits for it; Backspace undoes.
const act = button => {
  button.classList.add('pressed');
  setTimeout(() => button.classList.remove('pressed'), 120);
  trigger('select', {index: Number(button.dataset.index)});
};
const TYPED = 'input, textarea, select, [role=tab], [role=slider], [role=listbox], [contenteditable=true], .easel, .tiles';
element.addEventListener('pointerdown', event => { if (event.target.closest('[data-index]')) event.preventDefault(); });
element.addEventListener('click', event => {
  const hit = event.target.closest('[data-index]');
  if (hit) act(hit);
});
document.addEventListener('keydown', event => {
  if (!element.offsetParent || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(TYPED)) return;
  if ((event.key === ' ' || event.key === 'Enter') && event.target.closest('button')) return;
  if (event.key === 'Backspace') {
    event.preventDefault();
    document.getElementById('undo').click();
    return;
  }
  const hit = [...element.querySelectorAll('[data-key]')].find(one => one.dataset.key === event.key);
  if (!hit) return;
  event.preventDefault();
  act(hit);
});
