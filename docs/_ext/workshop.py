"""What the site needs beyond its themes and extensions: progress, downloads, and a check that every chapter is whole."""

import gc
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import torch
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ConfigError, SphinxError
from sphinx.util.docutils import SphinxDirective

from kernels.lab import record
from kernels.lab.show import Table
from kernels.lab.units import count, digits, si

ROOT = Path(__file__).resolve().parents[2]
WHEEL = "first_fast_kernel-{}-py3-none-any.whl"
_SITE = os.environ.get("DOCS_URL", "").rstrip("/")

_CHECKOUT = re.compile(r'first-fast-kernel = \{ path = "[./]+" \}')

# What makes a chapter a chapter, and how it shows in the page.
_REQUIRED = {
    "a table of timings": r'class="lab lab-table',
    "a roofline": r'role="img" aria-label="[^"]*A roofline plot',
    "a PTX excerpt": r'class="lab lab-excerpt',
    "a graded exercise": r'class="lab lab-report',
    "a claim": r'class="lab lab-claim',
    "a prediction": r'class="lab lab-predict',
    "where its numbers come from": r'class="lab lab-source',
}


def reset(gallery_conf: dict, fname: str) -> None:
    """Say which chapter comes next, and leave it nothing of the one before."""
    name = Path(fname).name
    for folder in (ROOT / "tutorials", ROOT / "docs" / "examples"):
        scripts = sorted(path.name for path in folder.glob("*.py"))
        if name in scripts:
            print(f"{folder.name}, {scripts.index(name) + 1} of {len(scripts)}: {name}", flush=True)
    record.used.clear()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    torch.manual_seed(0)


def wheel_name() -> str:
    """Return the file name of the project's wheel."""
    from kernels import __version__

    return WHEEL.format(__version__)


def first_notebook_cell() -> str:
    """Return the cell that installs what a downloaded notebook needs, once."""
    place = f"{_SITE}/downloads/{wheel_name()}" if _SITE else wheel_name()
    hint = "" if _SITE else " (it is in the archive that holds this notebook)"
    return (
        f"# Run this first, once. It installs the workshop's package from its wheel{hint}.\n"
        "import importlib.util\n\n"
        'if importlib.util.find_spec("kernels") is None:\n'
        f"    %pip install --quiet {place}"
    )


def name_the_wheel(app: Sphinx) -> None:
    """Let a downloaded script's inline metadata find the site's own wheel, and not a checkout around it."""
    here = f'{{ url = "{_SITE}/downloads/{wheel_name()}" }}' if _SITE else f'{{ path = "{wheel_name()}" }}'
    for script in (
        path for name in ("chapters", "instruments") for path in (Path(app.srcdir) / name).glob("*.py")
    ):
        text, found = _CHECKOUT.subn(f"first-fast-kernel = {here}", script.read_text(encoding="utf-8"))
        if found != 1:
            raise SphinxError(
                f"{script.name}: its inline script metadata must name first-fast-kernel's source once"
            )
        script.write_text(text, encoding="utf-8")


class MeasuredHeadline(SphinxDirective):
    """The landing page's result, out of the same record as the chapters."""

    def run(self) -> list[nodes.Node]:
        sweep = {label: record.rows(f"add/{label}") for label in ("baseline", "torch.add")}
        last = sweep["baseline"][-1]["params"]
        slow, fast = (
            next(row["seconds"] for row in rows if row["params"] == last) for rows in sweep.values()
        )
        n = count(last["n"])
        table = Table(
            ("the same additions", "time", "bytes moved per second"),
            [
                (
                    "one program per element, as in a Python loop",
                    si(slow, "s"),
                    si(12 * last["n"] / slow, "B/s"),
                ),
                ("torch.add", si(fast, "s"), si(12 * last["n"] / fast, "B/s")),
            ],
            f"Two vectors of {n} elements: {digits(slow / fast)} times apart",
            (record.current().line,),
        )
        return [nodes.raw("", table._repr_html_(), format="html")]


def announce(app: Sphinx, config: object) -> None:
    """Say whether numbers will be measured or replayed, and stop where neither can be."""
    try:
        print(record.describe(), flush=True)
    except record.RecordError as error:
        raise ConfigError(str(error)) from error


def pack_downloads(app: Sphinx, exception: Exception | None) -> None:
    """Put the wheel and one archive of everything beside the pages."""
    if exception or app.builder.name != "html":
        return
    folder = Path(app.outdir) / "downloads"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    wheel = folder / wheel_name()
    if not wheel.exists():
        raise SphinxError(f"the wheel {wheel.name} was not built:\n{built.stdout}{built.stderr}")
    with zipfile.ZipFile(folder / "first-fast-kernel.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(wheel, wheel.name)
        for chapter in sorted((Path(app.srcdir) / "chapters").glob("[0-9][0-9]_*")):
            if chapter.suffix in {".py", ".ipynb"}:
                archive.write(chapter, chapter.name)


def check_chapters(app: Sphinx, exception: Exception | None) -> None:
    """Fail a build in which a chapter lacks what every chapter shows; that nothing was raised is not enough."""
    if exception or app.builder.name != "html":
        return
    scripts = sorted((ROOT / "tutorials").glob("[0-9][0-9]_*.py"))
    missing = []
    for script in scripts:
        page = Path(app.outdir) / "chapters" / f"{script.stem}.html"
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        missing += [
            f"{script.stem}: {what}" for what, pattern in _REQUIRED.items() if not re.search(pattern, text)
        ]
    if missing:
        raise SphinxError("these chapters are not whole:\n  " + "\n  ".join(missing))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("measured-headline", MeasuredHeadline)
    app.connect("config-inited", announce)
    app.connect(
        "builder-inited", name_the_wheel, priority=900
    )  # after sphinx-gallery has written the scripts
    app.connect("build-finished", pack_downloads)
    app.connect("build-finished", check_chapters)
    return {"parallel_read_safe": True}
