"""What a learner downloads: the wheel holds all it needs, each script and notebook runs from top to bottom with it."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CHAPTERS = [path.stem for path in sorted((Path(__file__).parents[1] / "tutorials").glob("[0-9][0-9]_*.py"))]


@pytest.fixture(scope="session")
def unpacked(site, tmp_path_factory) -> Path:
    """The archive of all downloads, unpacked, and its wheel installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("downloads")
    with zipfile.ZipFile(site / "downloads" / "first-fast-kernel.zip") as archive:
        archive.extractall(folder)
    wheel = next(folder.glob("*.whl"))
    install = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(folder / "installed"),
        str(wheel),
    ]
    subprocess.run([sys.executable, *install], check=True)
    return folder


def clean_environment(folder: Path) -> dict[str, str]:
    """An environment in which `kernels` is the installed wheel and no measurement is live."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KERNELS_", "TRITON_"))}
    return {**kept, "PYTHONPATH": str(folder / "installed"), "CUDA_VISIBLE_DEVICES": "", "HOME": str(folder)}


@pytest.mark.parametrize("name", CHAPTERS)
def test_script_runs_from_top_to_bottom(unpacked, name):
    script = unpacked / f"{name}.py"
    done = subprocess.run(
        [sys.executable, script.name],
        check=False,
        cwd=unpacked,
        env=clean_environment(unpacked),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "replayed from the record" in done.stdout
    assert "still to be solved" in done.stdout
    assert "<div" not in done.stdout


@pytest.mark.parametrize("name", CHAPTERS)
def test_notebook_runs_from_top_to_bottom(unpacked, name, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    book = nbformat.read(unpacked / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    env = clean_environment(unpacked)
    client = nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(unpacked)}}
    )
    client.execute(env=env)
    shown = [o for cell in book.cells for o in cell.get("outputs", ()) if "text/html" in o.get("data", {})]
    assert any("replayed from the record" in o["data"]["text/html"] for o in shown)


@pytest.mark.parametrize("name", CHAPTERS)
def test_notebook_shows_no_raw_restructuredtext(unpacked, name):
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.read(unpacked / f"{name}.ipynb", as_version=4)
    prose = [cell.source for cell in book.cells if cell.cell_type == "markdown"]
    assert [text for text in prose if re.search(r"^\s*\.\. |:\w+:`", text, re.MULTILINE)] == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_script_metadata_finds_the_wheel_beside_it(unpacked, name):
    text = (unpacked / f"{name}.py").read_text()
    assert text.startswith("# /// script\n")
    assert next(unpacked.glob("*.whl")).name in text
