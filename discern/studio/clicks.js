// What a list of goals or the map does: a click makes a goal, hovering over a point of the map shows it.
element.addEventListener('click', event => {
  const hit = event.target.closest('[data-index]');
  if (!hit) return;
  document.querySelectorAll('.picked').forEach(other => other.classList.remove('picked'));
  hit.classList.add('picked');
  trigger('select', {index: Number(hit.dataset.index), source: element.closest('[id]:not([id^=html-])').id});
});
element.addEventListener('mouseover', event => {
  const peek = element.querySelector('.peek');
  if (!peek) return;
  const hit = event.target.closest('[data-place]');
  peek.classList.toggle('shown', Boolean(hit));
  if (!hit) return;
  const [x, y] = [hit.getAttribute('cx') / 4, hit.getAttribute('cy') / 4];
  peek.style.backgroundPosition = hit.dataset.place;
  peek.style.left = x + '%';
  peek.style.top = y + '%';
  peek.style.translate = (x > 50 ? '-115% ' : '15% ') + (y > 50 ? '-115%' : '15%');
});
element.addEventListener('mouseleave', () => element.querySelector('.peek')?.classList.remove('shown'));
element.addEventListener('keydown', event => {
  const hit = event.target.closest('[data-index]');
  if (!hit) return;
  if (hit.tagName !== 'BUTTON' && (event.key === 'Enter' || event.key === ' ')) {
    event.preventDefault();
    hit.dispatchEvent(new MouseEvent('click', {bubbles: true}));
  }
  const group = hit.closest('.tiles, svg');
  if (!group) return;
  const across = group.matches('.tiles') ? getComputedStyle(group).gridTemplateColumns.split(' ').length : 1;
  const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across}[event.key];
  const next = by && group.querySelector(`[data-index='${Number(hit.dataset.index) + by}']`);
  if (!next) return;
  event.preventDefault();
  hit.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});
