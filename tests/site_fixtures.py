"""The built site, served on this machine, in a real browser."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site: the one that `KERNELS_SITE` names, else built now from the record."""
    if given := os.environ.get("KERNELS_SITE"):
        return Path(given).resolve()
    pytest.importorskip("sphinx_gallery", reason="the docs group is not installed")
    html = tmp_path_factory.mktemp("site") / "html"
    shutil.rmtree(ROOT / "docs" / "chapters", ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-j1",
        "-n",
        "-T",
        "-W",
        "--keep-going",
        str(ROOT / "docs"),
        str(html),
    ]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return html


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output for what went wrong."""


@pytest.fixture(scope="session")
def server(site: Path) -> Iterator[str]:
    """The address of the served site."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """A headless Chromium; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the site group is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium: `apt install chromium` runs the browser tests")
    quiet = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=quiet)
        yield running
        running.close()
