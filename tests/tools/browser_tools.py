"""Pages in a browser without a window: a script acts on a page, and what it finds comes back."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium is installed: how pages behave in a browser is not tested"
)


def acted(page: str, script: str, folder: Path, width: int = 400) -> Any:
    """What a script leaves in `found`, an object, when it has run after those of the page itself."""
    ending = "document.body.innerHTML = '<pre id=found></pre>';"
    ending += "document.getElementById('found').textContent = JSON.stringify(found);"
    path = folder / "page.html"
    act = f"<script>const found = {{}};{script};{ending}</script>"
    path.write_text(page.replace("</body>", f"{act}</body>"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command = [str(BROWSER), *options, f"--window-size={width},800", "--dump-dom", path.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    left = re.search(r'<pre id="found">(.*?)</pre>', run.stdout, re.DOTALL)
    assert left is not None, run.stderr[-2000:]
    return json.loads(html.unescape(left.group(1)))
