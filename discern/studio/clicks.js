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
