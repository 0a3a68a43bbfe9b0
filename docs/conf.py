"""What Sphinx is told; the pages it reads are those that `python -m docs` writes."""

project = html_title = "functad"
author = "The functad authors"
extensions = ["myst_parser"]
myst_heading_anchors = 6
# Pages begin with the heading levels that their sources have.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_theme = "furo"
html_static_path = ["../build/docs/pages/_static"]
html_css_files = ["site.css"]
html_show_sourcelink = html_copy_source = html_show_copyright = False
pygments_style, pygments_dark_style = "friendly", "monokai"
