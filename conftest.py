"""Tests keep what they compile in the repository's own folder, not in the user's cache."""

import os
from pathlib import Path

os.environ.setdefault("FUNCTAD_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "functad"))
