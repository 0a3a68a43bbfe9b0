"""The map shows what there is: its pictures are what the stages print, and the files that it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import functad

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_pictures_are_what_the_stages_print() -> None:
    (code,) = [text for language, text in BLOCKS if language == "python"]
    names: dict[str, Any] = {}
    exec(code, names)
    loss, w, x = names["loss"], names["w"], names["x"]
    stages = names["step"].lower(w, x)
    kernels = [line for line in str(stages.kernels).splitlines() if not line.lstrip().startswith("#")]
    kernel = "\n".join(kernels[next(i for i, line in enumerate(kernels) if line.startswith("def ")) :])
    shown = [
        functad.make_jaxpr(loss)(w, x),
        functad.make_jaxpr(functad.vmap(loss, (None, 0)))(w, names["jnp"].ones((32, w.size))),
        functad.make_jaxpr(functad.grad(loss))(w, x),
        stages.optimized,
        kernel,
        f"{stages.memory_plan}\n{stages.cost}",
    ]
    *pictures, times = [text for language, text in BLOCKS if not language]
    assert [str(stage).strip() for stage in shown] == [picture.strip() for picture in pictures]
    assert _without_times(times) == _without_times(str(stages.compile().profile(w, x)))


def _without_times(table: str) -> list[list[str]]:
    """The words of each line; where a machine's time stands, that one does."""
    return [re.sub(r"[\d.]+", "time", line).split() for line in table.strip().splitlines()]


def test_the_files_it_names_exist() -> None:
    text = re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S)
    named = {name for name in re.findall(r"`([\w/.]+)`", text) if name.endswith((".py", "/"))}
    assert len(named) > 50
    folders = [ROOT / name for name in ("functad", "tests", "benchmarks")]
    found = [*ROOT.iterdir(), *folders, *(p for folder in folders for p in folder.rglob("*"))]
    files = {str(p.relative_to(ROOT)) + "/" * p.is_dir() for p in found if "__pycache__" not in p.parts}
    missing = [name for name in named if not any(f"/{f}".endswith(f"/{name}") for f in files)]
    assert not missing
