"""A memory plan over time, as SVG: which array lies where, from the first block that uses it to the last.

Knows memory plans; nothing of Programs.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from functad.lowering.memory.arena import MemoryPlan

_WIDTH, _HEIGHT, _LEFT, _TOP = 720, 260, 84, 26
_KINDS = 4  # of hatchings, which tell neighbours apart without colour


def memory_picture(plan: MemoryPlan, attributes: Callable[[str], str]) -> str:
    """An `svg` element: time from left to right, addresses from top to bottom.

    attributes: of the group that shows an array, by the array's name.
    """
    if not plan.offsets:
        return ""
    times = 1 + max(last for _, last in plan.lifetimes.values())
    across, down = (_WIDTH - _LEFT) / times, (_HEIGHT - _TOP) / max(plan.arena_bytes, 1)
    described = f"{len(plan.offsets)} arrays in {plan.arena_bytes:,} bytes over {times} blocks of work"
    parts = [
        f'<svg class="memory" viewBox="0 0 {_WIDTH} {_HEIGHT + 2}" role="img" aria-label="{escape(described)}">',
        _hatchings(),
        _text(0, _TOP + 10, "byte 0"),
        _text(0, _HEIGHT, f"{plan.arena_bytes:,}"),
        *(_text(_LEFT + across * (t + 0.5), 14, str(t), "middle") for t in range(0, times, max(1, times // 12))),
        _text(0, 14, "block"),
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH - _LEFT}" height="{_HEIGHT - _TOP}" fill="none" '
        'stroke="currentColor" opacity="0.4"/>',
    ]
    for i, (storage, offset) in enumerate(sorted(plan.offsets.items(), key=lambda item: plan.lifetimes[item[0]])):
        first, last = plan.lifetimes[storage]
        x, width = _LEFT + across * first, across * (last - first + 1)
        y, height = _TOP + down * offset, max(down * storage.nbytes, 2.0)
        label = f"{storage.name}: bytes {offset:,} to {offset + storage.nbytes:,}, blocks {first} to {last}"
        shape = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        name = _text(x + 5, y + min(height / 2 + 4, 14), storage.name) if height > 12 and width > 40 else ""
        parts.append(
            f'<g {attributes(storage.name)}><title>{escape(label)}</title><rect class="box" {shape}/>'
            f'<rect {shape} fill="url(#hatch{i % _KINDS})" opacity="0.5"/>{name}</g>'
        )
    return "".join([*parts, "</svg>"])


def _hatchings() -> str:
    lines = ("M0 8L8 0", "M0 0L8 8", "M4 0V8", "M0 4H8")
    patterns = "".join(
        f'<pattern id="hatch{i}" width="8" height="8" patternUnits="userSpaceOnUse"><path d="{d}" '
        'stroke="currentColor" stroke-width="0.6" opacity="0.5"/></pattern>'
        for i, d in enumerate(lines)
    )
    return f"<defs>{patterns}</defs>"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor" font-size="11" text-anchor="{anchor}">{escape(text)}</text>'
    )
