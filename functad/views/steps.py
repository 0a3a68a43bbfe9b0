"""The steps of a function in a notebook and on a page: a slider, the list of equations, and the values of one of them.

Knows steps as `debug.step` makes them; nothing of how they ran. Without a script, all steps stand one below the other.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from functad.views.arrays import picture, summary_of
from functad.views.page import page

if TYPE_CHECKING:
    from functad.debug.stepping import EquationStep, NamedValue, Steps

_PICTURES = 1000  # steps up to which results are shown as pictures


def steps_page(steps: Steps) -> str:
    """A page of its own.

    >>> import functad
    >>> "step 1 of 1" in steps_page(functad.debug.step(lambda x: -x)(3.))
    True
    """
    counted = f"{len(steps):,} equations, one after the other, with what each gives."
    return page(steps.name, [counted], [], top=steps_html(steps), style="body { max-width: 90rem; }")


def steps_html(steps: Steps) -> str:
    """What a notebook shows."""
    count = len(steps)
    rows = "".join(f"<li>{_row(step)}</li>" for step in steps)
    shown = "".join(_step(step, count) for step in steps)
    bar = (
        '<div class="fs-bar"><button type="button" data-by="-1">‹ previous</button>'
        f'<input type="range" min="1" max="{count}" value="1" aria-label="step of {steps.name and escape(steps.name)}">'
        '<button type="button" data-by="1">next ›</button></div>'
    )
    inside = f'<ol class="fs-list" aria-label="equations">{rows}</ol><div aria-live="polite">{shown}</div>'
    return (
        f'<div class="fs"><style>{_LOOKS}</style>{bar if count > 1 else ""}<div class="fs-both">{inside}</div>'
        f"<script>{_SCRIPT}</script></div>"
    )


def _row(step: EquationStep) -> str:
    """A line of the list; the sign says which way it goes."""
    sign = "↑" if step.backward else "↓"
    spoils = f' <b class="fs-spoils">first {escape(step.spoils)}</b>' if step.spoils else ""
    text = escape(" ".join(step.equation.split()))
    return (
        f'<button type="button" tabindex="-1" data-to="{step.number}"><span title="{step.half}">{sign}</span> '
        f"<code>{text}</code>{spoils}</button>"
    )


def _step(step: EquationStep, count: int) -> str:
    spoils = f' · <b class="fs-spoils">the first {escape(step.spoils)}</b>' if step.spoils else ""
    code = f"<code>{escape(step.code)}</code>" if step.code else ""
    place = f'<p class="fs-place">{code}<span>{escape(step.place)}</span></p>' if step.place else ""
    reads = "".join(f"<li>{_words(value)}</li>" for value in step.reads)
    results = "".join(_result(value, count) for value in step.results)
    return (
        f'<section class="fs-step"><p class="fs-head">step {step.number} of {count} · {step.half}{spoils}</p>{place}'
        f'<pre>{escape(step.equation)}</pre><ul class="fs-reads">{reads}</ul>{results}</section>'
    )


def _words(value: NamedValue) -> str:
    return f"<code>{escape(value.name)}</code> {escape(str(summary_of(value.value)))}"


def _result(value: NamedValue, count: int) -> str:
    shown = picture(value.value, summary_of(value.value), 64, 96) if count <= _PICTURES else ""
    return f'<div class="fs-result"><p>{_words(value)}</p>{shown}</div>'


_LOOKS = """
.fs { font: 14px/1.5 system-ui, sans-serif; }
.fs code, .fs pre { font: 12.5px/1.5 ui-monospace, monospace; background: none; color: inherit; }
.fs-bar { display: flex; gap: .6rem; align-items: center; margin: .4rem 0; }
.fs-bar input { flex: 1; min-width: 0; accent-color: #2b7bd6; }
.fs button { color: inherit; background: none; font: inherit; cursor: pointer; }
.fs-bar button { border: 1px solid rgba(128,128,128,.6); border-radius: .3rem; padding: .1rem .6rem;
  white-space: nowrap; }
.fs :focus-visible { outline: 2px solid #2b7bd6; }
.fs-both { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.fs-both > div { flex: 1 1 22rem; min-width: 0; }
.fs-list { flex: 1 1 22rem; min-width: 0; max-height: 60vh; overflow: auto; margin: 0; padding: 0; list-style: none;
  border: 1px solid rgba(128,128,128,.35); border-radius: .4rem; }
.fs-list button { display: block; width: 100%; text-align: left; border: 0; border-left: 4px solid transparent;
  padding: .05rem .5rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.fs-list button:hover { background: rgba(128,128,128,.14); }
.fs-list [aria-current] { border-left-color: #2b7bd6; background: rgba(43,123,214,.16); font-weight: 600; }
.fs-step { margin: 0 0 1rem; }
@media (max-width: 48rem) { .fs-list { max-height: 30vh; } }
.fs-step pre { width: auto; min-width: 0; border-radius: 0; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .3rem 0; padding: .5rem .7rem; border: 0;
  border-left: 3px solid #2b7bd6; }
.fs-step p { margin: .2rem 0; max-width: none; } .fs-head { font-weight: 600; }
.fs-place code { display: block; overflow-wrap: anywhere; } .fs-place span { opacity: .7; font-size: .85em;
  overflow-wrap: anywhere; }
.fs-reads { margin: .3rem 0 .6rem; padding: 0; list-style: none; opacity: .8; }
.fs-result { margin: .5rem 0; overflow-x: auto; } .fs-result p { margin-bottom: .3rem; }
.fs-spoils { color: #d0006f; }
@media (prefers-color-scheme: dark) { .fs-spoils { color: #ff6fb5; } .fs-bar input { accent-color: #7ab5f5; } }
"""
_SCRIPT = """
(() => { for (const root of document.querySelectorAll('.fs:not([data-live])')) {
  root.dataset.live = '1';
  const steps = [...root.querySelectorAll('.fs-step')], rows = [...root.querySelectorAll('.fs-list button')];
  const slider = root.querySelector('input');
  const show = n => {
    const at = Math.min(Math.max(n, 1), steps.length);
    steps.forEach((step, i) => { step.hidden = i !== at - 1; });
    rows.forEach((row, i) => { if (i === at - 1) row.setAttribute('aria-current', 'step');
      else row.removeAttribute('aria-current');
      row.tabIndex = i === at - 1 ? 0 : -1; });
    const list = rows[at - 1].closest('.fs-list'), top = rows[at - 1].offsetTop - list.offsetTop;
    if (top < list.scrollTop || top > list.scrollTop + list.clientHeight - 40) list.scrollTop = top - 60;
    if (slider) slider.value = at;
  };
  if (!steps.length) continue;
  root.addEventListener('click', event => {
    const button = event.target.closest('button');
    if (!button) return;
    if (button.dataset.to) show(+button.dataset.to);
    if (button.dataset.by) show(+slider.value + +button.dataset.by);
  });
  if (slider) slider.addEventListener('input', () => show(+slider.value));
  root.addEventListener('keydown', event => {
    if (!slider || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = event.target.dataset.to, at = +slider.value;
    const to = { n: at + 1, p: at - 1, Home: 1, End: steps.length }[event.key]
      ?? (row ? { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key] : undefined);
    if (to === undefined) return;
    show(to); event.preventDefault();
    if (row) rows[+slider.value - 1].focus();
  });
  show(1);
} })();
"""
