"""How the site is built. `nox -s docs` runs it."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from workshop import first_notebook_cell

from kernels import __version__  # the lab comes before Triton
from kernels.lab.show import ASSETS

project = "Your First Fast GPU Kernel"
author = "The Your First Fast GPU Kernel authors"
copyright = f"2026, {author}"
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "workshop",
]
exclude_patterns = ["_build", "examples", "chapters/*.ipynb", "instruments/*.ipynb"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
nitpicky = True
# Names in type hints that have no page to link to: this site fetches no inventory of another one,
# and a module whose name starts with an underscore is not documented.
nitpick_ignore_regex = [("py:.*", r"(?!kernels\.).*"), ("py:.*", r"kernels\.lab\._.*")]

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": ["../tutorials", "examples"],
    "gallery_dirs": ["chapters", "instruments"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),
    "image_scrapers": (),  # figures are display objects that carry their own SVG
    "reset_modules": ("workshop.reset",),
    "first_notebook_cell": first_notebook_cell(),
    "notebook_images": True,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "min_reported_time": 0,
}

html_theme = "furo"
html_title = project
html_baseurl = os.environ.get("DOCS_URL", "")
# The display objects' style sheets and scripts, which a notebook carries inside its outputs, are linked here once.
_assets = sorted(Path(str(ASSETS)).glob("*.[cj]s*"))
html_static_path = ["_static", *(str(path) for path in _assets if path.suffix in {".css", ".js"})]
html_css_files = [*(path.name for path in _assets if path.suffix == ".css"), "site.css"]
html_js_files = [(path.name, {"defer": "defer"}) for path in _assets if path.suffix == ".js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
pygments_style = "a11y-light"
pygments_dark_style = "github-dark"
copybutton_selector = "div:not(.sphx-glr-script-out) > div.highlight > pre"
