"""The configuration of the sample site for Sphinx."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

project = "Tidewater"
release = "2.4"
extensions = ["sphinx.ext.autodoc", "myst_parser", "sphinx_reredirects"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_parts"]
locale_dirs = ["locale"]
gettext_compact = False
redirects = {"guides/backoff": "retries.html"}
nitpicky = True
