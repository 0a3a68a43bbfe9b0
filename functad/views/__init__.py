"""How things look: pages of HTML, charts and pictures as SVG and PNG, in light and dark.

Knows Programs and values; nothing of training or of the command line.
"""
