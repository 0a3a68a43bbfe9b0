"""The style sheet and the script of an explanation's page: how lines look, and how they are marked.

Knows the class names, the `data-` attributes and the table `KERNELS`, from kernels to their variables, that
`explanation.py` writes; nothing of stages.
"""

STYLE = """
:root { --add: #1a7f45; --gone: #a3352b; --mark: rgba(43, 123, 214, .16); }
@media (prefers-color-scheme: dark) { :root { --add: #6fd096; --gone: #f0958b; --mark: rgba(120, 175, 240, .22); } }
body { max-width: 100rem; }
main > header, section { min-width: 0; }
nav ol { margin: .6rem 0; padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: .3rem .4rem;
  counter-reset: n; }
nav li { counter-increment: n; font-size: .85rem; }
nav a { display: block; padding: .12rem .55rem; border: 1px solid var(--line); border-radius: 1rem; color: inherit;
  text-decoration: none; }
nav a::before { content: counter(n) " "; color: var(--soft); }
nav a:hover { background: var(--fill); }
a:focus-visible, summary:focus-visible, .line:focus-visible { outline: 2px solid rgb(var(--shade));
  outline-offset: -2px; }
.said { position: sticky; top: 0; z-index: 2; margin: 0; max-width: none; padding: .3rem .6rem; background: var(--fill);
  border: 1px solid var(--line); border-radius: .4rem; font-size: .85rem; }
.notes { margin: .3rem 0; padding-left: 1.1rem; font-size: .88rem; color: var(--soft); max-width: 60rem; }
.count { min-height: 1.3rem; margin: .2rem 0; font-size: .8rem; color: var(--soft); }
.listing { max-height: 26rem; overflow: auto; background: var(--fill); border: 1px solid var(--line);
  border-radius: .4rem; padding: .3rem 0; scroll-behavior: smooth; position: relative; }
.lines { width: max-content; min-width: 100%; }
.line { display: flex; padding-right: .8rem; cursor: default;
  font: .82rem/1.5 ui-monospace, monospace; border-left: 4px solid transparent; }
.line code { font: inherit; white-space: pre; tab-size: 8; }
.line .mark { flex: none; width: 1.3rem; text-align: center; font-weight: 700; }
.line .note { margin-left: auto; padding-left: 2.5rem; color: var(--soft); white-space: pre; }
@media (min-width: 44rem) {  /* what stands beside a line is seen however long the lines are */
  .line .note { position: sticky; right: 0; padding: 0 .8rem 0 1rem; margin-right: -.8rem; background: var(--fill);
    box-shadow: -.5rem 0 .4rem var(--fill); }
}
.line.head { font-weight: 600; color: var(--soft); padding-top: .25rem; }
.line.add .mark, .line.add code { color: var(--add); }
.line.gone .mark, .line.gone code { color: var(--gone); }
.line.gone code { text-decoration: line-through; }
.line.on { background: var(--mark); border-left-color: rgb(var(--shade)); }
.line.on code { font-weight: 600; }
.line.here { border-left-style: double; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
summary { cursor: pointer; font-size: .9rem; padding: .2rem 0; }
svg.memory { display: block; width: 100%; max-width: 52rem; height: auto; margin: .4rem 0; }
svg.memory .box { fill: var(--fill); stroke: currentColor; stroke-width: 1; }
svg.memory .line { font: inherit; }
svg.memory .on .box { stroke: rgb(var(--shade)); stroke-width: 3; fill: var(--mark); }
@media (min-width: 70rem) {
  main { display: grid; grid-template-columns: minmax(22rem, 32rem) minmax(0, 1fr); column-gap: 1.6rem;
    align-items: start; }
  main > header { grid-column: 1 / -1; }
  .said { position: fixed; bottom: .6rem; top: auto; left: 1rem; }
  section { grid-column: 2; }
  #stage1 { grid-column: 1; grid-row: 2 / span 80; position: sticky; top: 0; }
  #stage1 .listing { max-height: calc(100vh - 10rem); }
}
@media (prefers-reduced-motion: reduce) { .listing { scroll-behavior: auto; } }
"""

SCRIPT = """
(() => {
  const lines = [...document.querySelectorAll('.line')];
  const index = { v: new Map(), k: new Map(), l: new Map(), s: new Map() };
  const words = (line, key) => (line.dataset[key] || '').split(' ').filter(Boolean);
  const names = line => [...words(line, 'v'), ...words(line, 'w').flatMap(kernel => KERNELS[kernel] || [])];
  const put = (map, word, line) => map.has(word) ? map.get(word).push(line) : map.set(word, [line]);
  for (const line of lines) {
    for (const v of words(line, 'v')) put(index.v, v, line);
    for (const k of words(line, 'k')) put(index.k, k, line);
    for (const l of words(line, 'l')) put(line.dataset.s ? index.s : index.l, l, line);
  }
  const related = line => {
    const found = new Set([line]);
    const add = (map, word) => (map.get(word) || []).forEach(one => found.add(one));
    for (const v of names(line)) add(index.v, v);
    for (const k of words(line, 'k')) add(index.k, k);
    for (const l of words(line, 'l')) { add(index.s, l); if (line.dataset.s) add(index.l, l); }
    return found;
  };
  const said = document.getElementById('said');
  let marked = new Set(), pinned = null;
  const mark = line => {
    marked.forEach(one => { one.classList.remove('on', 'here'); one.removeAttribute('data-on');
      if (one.hasAttribute('aria-selected')) one.setAttribute('aria-selected', 'false'); });
    marked = line ? related(line) : new Set();
    marked.forEach(one => { one.classList.add('on');
      if (one.hasAttribute('aria-selected')) one.setAttribute('aria-selected', 'true'); });
    if (line) line.classList.add('here');
    const counts = new Map();
    marked.forEach(one => { const s = one.closest('section'); counts.set(s, (counts.get(s) || 0) + 1); });
    document.querySelectorAll('.count').forEach(p => {
      const n = counts.get(p.closest('section')) || 0;
      p.textContent = n ? `${n} ${n === 1 ? 'line' : 'lines'} marked` : '';
    });
    const all = line ? names(line) : [];
    const what = all.length > 5 ? `${all.length} equations` : all.join(', ') || (line && 'this line');
    said.textContent = line ? `${what}: ${marked.size} lines in ${counts.size} stages` : 'Nothing is marked.';
  };
  const show = () => {
    const seen = new Set();
    marked.forEach(one => {
      const list = one.closest('.listing');
      if (!list || seen.has(list) || one.classList.contains('here')) return;
      seen.add(list);
      const [top, height] = [one.offsetTop, list.clientHeight];
      if (top < list.scrollTop || top + one.offsetHeight > list.scrollTop + height) list.scrollTop = top - height / 3;
    });
  };
  const pin = line => { pinned = pinned === line ? null : line; mark(line); if (pinned) show(); };
  const belongs = line => line && (line.dataset.v || line.dataset.w || line.dataset.l || line.dataset.k);
  const of = event => event.target.closest('.line');
  document.addEventListener('mouseover', event => { if (!pinned) mark(belongs(of(event)) ? of(event) : null); });
  document.addEventListener('click', event => { if (belongs(of(event))) pin(of(event)); });
  document.addEventListener('focusin', event => { if (belongs(of(event)) && !pinned) mark(of(event)); });
  document.querySelectorAll('.listing').forEach(list => {
    const own = [...list.querySelectorAll('.line')];
    const first = own.find(belongs) || own[0];
    if (first) first.tabIndex = 0;
    const changed = list.querySelector('.add, .gone');
    if (changed) list.scrollTop = changed.offsetTop - 60;
    list.addEventListener('focusin', event => {
      own.forEach(one => { one.tabIndex = -1; });
      of(event).tabIndex = 0;
    });
    list.addEventListener('keydown', event => {
      const at = own.indexOf(of(event));
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: own.length - 1 }[event.key];
      if (to !== undefined && own[to]) { own[to].focus(); event.preventDefault(); }
      const chosen = event.key === 'Enter' || event.key === ' ';
      if (chosen && belongs(of(event))) { pin(of(event)); event.preventDefault(); }
    });
  });
  document.addEventListener('keydown', event => { if (event.key === 'Escape') { pinned = null; mark(null); } });
})();
"""
