"""How a journey is shown: as text in a terminal, in a frame in a notebook, as a page that needs nothing besides itself.

Knows stages and their lines; not where they come from.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator, Sequence
from html import escape

from functad.system.cache import atomic_write
from functad.views.explanation_style import SCRIPT, STYLE
from functad.views.journey import Journey, Stage
from functad.views.kernel_lines import Line
from functad.views.memory_picture import memory_picture
from functad.views.page import PageSection, page, paragraph

_MARKS = {"+": "added: ", "-": "removed: ", "#": "", "": ""}  # for those who listen
_WIDTH = 96
_SHOWN, _SHOWN_OF_LONG = 60, 12  # lines of a stage in a terminal
_NOTES = 12  # beneath a heading
_ON_PAGE = 3_000  # lines of a stage on a page: more make a browser slow


class Explanation:
    """What `functad.explain` returns: the stages of a function, from its source to machine code.

    It prints in a terminal, shows itself in a notebook, and can be saved as one HTML page, where pointing at a line
    marks what belongs to it in all other stages.

    Attributes:
        name: of the function.
        stages: in order, each with `title`, `does`, `notes` and `lines`.

    >>> import functad, functad.numpy as jnp
    >>> found = functad.explain(lambda x: jnp.sin(x) * 1., times=False)(jnp.ones(3))
    >>> [stage.title for stage in found.stages][:4]
    ['Source', 'Traced', 'Simplify numbers', 'Fused into groups']
    >>> print(found["Simplify numbers"])
    Simplify numbers
    Compute with numbers instead of arrays that repeat them; drop what gives back its operand. 2
    equations became 1.
    * neutral number, 1 time (c): NaN and −0 stay: x + 0 is not x for x = −0.
      { lambda ; a:f32[3]. let
          b:f32[3] = sin a  # 33 flops, 24 bytes
    -     c:f32[3] = mul b 1.0:f32[]  # 3 flops, 28 bytes
        in (b,) }
    """

    def __init__(self, journey: Journey) -> None:
        self.name = journey.name
        self.signature = journey.signature
        self.stages = tuple(ShownStage(stage) for stage in journey.stages)

    def __getitem__(self, title: str) -> ShownStage:
        """The first stage of a title."""
        for stage in self.stages:
            if stage.title == title:
                return stage
        raise KeyError(f"no stage is called {title!r}; there are {', '.join(s.title for s in self.stages)}")

    def __str__(self) -> str:
        head = f"The journey of {self.name}({self.signature})"
        parts = [f"{number}. {stage}" for number, stage in enumerate(self.stages, 1)]
        return "\n\n".join([head, *parts])

    __repr__ = __str__

    def html(self) -> str:
        """The whole page."""
        numbered = list(enumerate(self.stages, 1))
        links = "".join(f'<li><a href="#stage{n}">{escape(s.title)}</a></li>' for n, s in numbered)
        top = (
            f'<nav aria-label="Stages"><ol>{links}</ol></nav>'
            '<p class="soft">Point at a line, or go to it with Tab and the arrow keys: what belongs to it in the '
            "other stages gets a bar and a tint. Click, or press Enter, to keep it marked and bring it into view; "
            'Escape lets go.</p><p id="said" class="said" role="status" aria-live="polite">Nothing is marked.</p>'
        )
        sections = [PageSection(f"{n}. {s.title}", s.html(n), f"stage{n}") for n, s in numbered]
        summary = [f"{self.name}({self.signature}), from its source to machine code."]
        wholes = {line.whole: line.about for stage in self.stages for line in stage.lines if line.whole}
        script = f"const KERNELS = {json.dumps(wholes)};{SCRIPT}"
        return page(f"The journey of {self.name}", summary, sections, top, STYLE, script)

    def _repr_html_(self) -> str:
        style = "width:100%;height:40rem;border:1px solid #8886;border-radius:.4rem"
        title = f"The journey of {escape(self.name)}"
        return (
            f'<iframe title="{title}" style="{style}" srcdoc="{escape(self.html())}"></iframe>'
            f"<details><summary>as text</summary><pre style='font-family:monospace'>{escape(str(self))}</pre></details>"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        with atomic_write(path) as file:
            file.write(self.html().encode())


class ShownStage:
    """A stage that prints. Attributes: those of `Stage`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.title, self.does, self.notes, self.lines = stage.title, stage.does, stage.notes, stage.lines

    def __str__(self) -> str:
        return "\n".join(self._text())

    __repr__ = __str__

    def _text(self) -> Iterator[str]:
        yield self.title
        yield textwrap.fill(self.does, _WIDTH)
        for note in self.notes[:_NOTES]:
            yield textwrap.fill(note, _WIDTH, initial_indent="* ", subsequent_indent="  ")
        if len(self.notes) > _NOTES:
            yield f"* … {len(self.notes) - _NOTES:,} more"
        for line in self._shown(_SHOWN_OF_LONG if self.stage.long else _SHOWN, " more: .save('page.html') shows more"):
            note = f"  # {line.note}" if line.note else ""
            mark = line.mark if line.mark in ("+", "-") else ""
            yield f"{mark:1} {line.text}{note}".rstrip()

    def _shown(self, most: int, more: str) -> Iterator[Line]:
        """The lines to show, and how many are left out between them; more: what is said of those at the end."""
        last = -1
        for number in self._chosen(most):
            if number > last + 1:
                yield Line(f"… {_counted(number - last - 1)}", "#")
            last = number
            yield self.lines[number]
        if last + 1 < len(self.lines):
            yield Line(f"… {_counted(len(self.lines) - last - 1)}{more}", "#")

    def _chosen(self, most: int) -> list[int]:
        """Numbers of lines: all of few; of many, those that changed and those beside them, or each part's first."""
        numbers = range(len(self.lines))
        if len(numbers) <= most:
            return [*numbers]
        changed = [i for i in numbers if self.lines[i].mark in ("+", "-")]
        if changed:
            return sorted({j for i in changed for j in range(i - 2, i + 3) if j in numbers})[:most]
        heads = sorted({0, *(i for i in numbers if self.lines[i].mark == "#")})
        each = max(1, most // len(heads))
        parts = (range(first, min(end, first + each)) for first, end in zip(heads, [*heads[1:], len(numbers)]))
        return [i for part in parts for i in part][:most]

    def html(self, number: int) -> str:
        """What stands beneath its heading."""
        parts = [paragraph(self.does), _notes(self.notes[:_NOTES])]
        if rest := self.notes[_NOTES:]:
            parts.append(f"<details><summary>{len(rest):,} more notes</summary>{_notes(rest)}</details>")
        if self.stage.memory is not None:
            about = {line.text.split(" ")[0]: line for line in self.lines}
            parts.append(memory_picture(self.stage.memory, lambda name: _attributes(about[name], "line")))
        if self.lines:
            shown = list(self._shown(_ON_PAGE, f" more: explanation[{self.title!r}].lines has them"))
            text = "".join(map(_line, shown))
            label = f'role="listbox" aria-multiselectable="true" aria-label="{escape(self.title)}"'
            listing = f'<div class="listing" {label}><div class="lines" role="presentation">{text}</div></div>'
            if self.stage.long:
                listing = f"<details><summary>Show {_counted(len(shown))}</summary>{listing}</details>"
            parts.append(f'<p class="count" data-stage="{number}" aria-hidden="true"></p>{listing}')
        return "".join(parts)


def _notes(notes: Sequence[str]) -> str:
    entries = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<ul class="notes">{entries}</ul>' if entries else ""


def _counted(lines: int) -> str:
    return f"{lines:,} line{'s' if lines != 1 else ''}"


def _line(line: Line) -> str:
    kind = {"+": "line add", "-": "line gone", "#": "line head", "": "line"}[line.mark]
    said = f'<span class="hidden">{_MARKS[line.mark]}</span>' if _MARKS[line.mark] else ""
    note = f'<span class="note">{escape(line.note)}</span>' if line.note else ""
    mark = line.mark if line.mark in ("+", "-") else ""
    return (
        f'<div {_attributes(line, kind)} role="option" aria-selected="false" tabindex="-1">'
        f'<span class="mark" aria-hidden="true">{mark}</span>{said}<code>{escape(line.text) or " "}</code>{note}</div>'
    )


def _attributes(line: Line, kind: str) -> str:
    """What tells the script to what a line belongs."""
    given = {
        "v": " ".join(line.about) if not line.whole else "",
        "w": line.whole,
        "l": " ".join(line.sources),
        "k": line.kernel,
        "s": "1" if line.sources and not line.about else "",
    }
    return f'class="{kind}"' + "".join(f' data-{key}="{escape(value)}"' for key, value in given.items() if value)
