// A rectangle on a picture: drawn by pointer, or moved and, with Shift, sized by arrow keys; told in the picture's pixels.
const WAYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
const easel = () => element.querySelector('.easel');
const size = () => [Number(easel().dataset.width), Number(easel().dataset.height)];
let corner = null, later = null;
const show = ends => {
  const box = easel().querySelector('.box'), [width, height] = size();
  const [left, right] = [ends[0], ends[2]].sort((a, b) => a - b), [top, bottom] = [ends[1], ends[3]].sort((a, b) => a - b);
  easel().dataset.box = [left, top, right, bottom].join();
  const share = (part, whole) => 100 * part / whole + '%';
  box.style = `left:${share(left, width)};top:${share(top, height)};width:${share(right - left, width)};height:${share(bottom - top, height)}`;
};
const tell = () => {
  const source = element.closest('[id]:not([id^=html-])').id;
  trigger('select', {box: easel().dataset.box.split(',').map(Number), source});
};
const at = event => {
  const frame = easel().getBoundingClientRect(), [width, height] = size();
  const place = [(event.clientX - frame.left) / frame.width * width, (event.clientY - frame.top) / frame.height * height];
  return place.map((value, i) => Math.min(Math.max(Math.round(value), 0), size()[i]));
};
element.addEventListener('pointerdown', event => {
  if (!event.target.closest('.easel')) return;
  corner = at(event);
  easel().setPointerCapture(event.pointerId);
});
element.addEventListener('pointermove', event => { if (corner) show([...corner, ...at(event)]); });
element.addEventListener('pointerup', event => {
  if (!corner) return;
  show([...corner, ...at(event)]);
  corner = null;
  tell();
});
element.addEventListener('keydown', event => {
  const way = WAYS[event.key];
  if (!way || !easel()) return;
  event.preventDefault();
  const [width, height] = size(), drawn = easel().dataset.box;
  let [left, top, right, bottom] = drawn ? drawn.split(',').map(Number) : [width, height, 2 * width, 2 * height].map(end => Math.round(end / 3));
  if (event.shiftKey) [right, bottom] = [Math.max(left + 1, right + way[0]), Math.max(top + 1, bottom + way[1])];
  else if (drawn) [left, right, top, bottom] = [left + way[0], right + way[0], top + way[1], bottom + way[1]];
  if (left < 0 || top < 0 || right > width || bottom > height) return;
  show([left, top, right, bottom]);
  clearTimeout(later);
  later = setTimeout(tell, 200);
});
