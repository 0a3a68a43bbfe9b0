"""`python -m docs`, run where the repository lies: write the pages, and build the site from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

os.environ.setdefault("FUNCTAD_ANNOUNCE_COMPILES", "0")

from .pages import ROOT, write  # noqa: E402

BUILD = ROOT / "build" / "docs"


def main() -> int:
    """Build the site; broken links within it, and whatever else Sphinx warns of, fail."""
    shutil.rmtree(BUILD, ignore_errors=True)
    write(BUILD / "pages")
    options = ["-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-c", str(ROOT / "docs")]
    doctrees = ["-d", str(BUILD / "doctrees")]
    sphinx = [sys.executable, "-m", "sphinx", *options, *doctrees, str(BUILD / "pages"), str(BUILD / "site")]
    status = subprocess.run(sphinx).returncode
    if not status:
        print(f"The site: {(BUILD / 'site' / 'index.html').as_uri()}")
    return status


if __name__ == "__main__":
    sys.exit(main())
