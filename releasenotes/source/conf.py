# SPDX-License-Identifier: Apache-2.0

"""Sphinx settings of the release notes."""

extensions = ["reno.sphinxext"]
project = "fpgapool release notes"
copyright = "the fpgapool contributors"
root_doc = "index"
html_theme = "alabaster"
html_theme_options = {
    "extra_nav_links": {"Documentation": "../html/index.html"},
}
html_sidebars = {
    "**": ["about.html", "searchfield.html", "navigation.html"],
}
