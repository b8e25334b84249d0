#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Everything that a maintainer runs. `nox` lists the sessions; `nox -s docs` builds the site, `nox -s tests` runs the tests.

With `nox --no-venv` a session installs nothing and uses what is there, as on a machine with its own CUDA stack.
"""

import os
import shutil
import sys
import time
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests", "docs"]

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml("pyproject.toml")
HTML = ROOT / "docs" / "_build" / "html"


def prepare(session: nox.Session, *groups: str) -> dict[str, str]:
    """Install the project and its groups, and return the environment that the session's commands need."""
    if session.venv_backend == "none":
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        }
    session.log("Installing. The first time this downloads torch, which can take a few minutes.")
    session.install("-q", "-e", ".", *nox.project.dependency_groups(PROJECT, "locked", *groups))
    return {}


def run(session: nox.Session, *module: str, env: dict[str, str]) -> None:
    """Run a Python module: with the session's Python, or without a virtual environment with the one that runs nox."""
    python = sys.executable if session.venv_backend == "none" else "python"
    session.run(python, "-m", *module, env=env, external=session.venv_backend == "none")


def sphinx(session: nox.Session, env: dict[str, str], *options: str) -> None:
    # -j1: two chapters timed at once on one GPU would slow each other down.
    run(session, "sphinx", "-j1", "-n", "-T", *options, "docs", str(HTML), env=env)


@nox.session(reuse_venv=True)
def docs(session: nox.Session) -> None:
    """Build the site from clean: measured live on a CUDA GPU, replayed from the record without one."""
    started = time.monotonic()
    env = prepare(session, "docs")
    env["KERNELS_RECORDS_OUT"] = str(ROOT / "docs" / "_build" / "records")
    for generated in (
        HTML,
        ROOT / "docs" / "_build" / "doctrees",
        ROOT / "docs" / "chapters",
        ROOT / "docs" / "instruments",
    ):
        shutil.rmtree(generated, ignore_errors=True)
    sphinx(session, env, "-W", "--keep-going", *session.posargs)
    session.log(f"Built in {time.monotonic() - started:.0f} s. Open {HTML / 'index.html'}")


@nox.session(name="docs-live", default=False, reuse_venv=True)
def docs_live(session: nox.Session) -> None:
    """Build the site, serve it on this machine, and build again whenever a file changes."""
    env = prepare(session, "docs", "live")
    env["KERNELS_RECORDS_OUT"] = str(ROOT / "docs" / "_build" / "records")
    watched = [f"--watch={folder}" for folder in ("tutorials", "src")]
    ignored = [
        f"--ignore={folder}"
        for folder in ("docs/chapters/*", "docs/instruments/*", "docs/_build/*", "*/__pycache__/*")
    ]
    run(session, "sphinx_autobuild", *watched, *ignored, "docs", str(HTML), *session.posargs, env=env)


@nox.session(default=False, reuse_venv=True)
def record(session: nox.Session) -> None:
    """Measure every chapter on this machine's GPU and update the record that travels with the package."""
    env = prepare(session)
    env["KERNELS_RECORDS_OUT"] = str(ROOT / "src" / "kernels" / "records")
    run(session, "kernels", "record", *(session.posargs or ["tutorials", "docs/examples"]), env=env)


@nox.session(reuse_venv=True)
def tests(session: nox.Session) -> None:
    """Run the tests that need no GPU: kernels in the interpreter, measurements replayed, downloads, the site."""
    env = prepare(session, "test", "docs")
    env["KERNELS_REPLAY"] = "1"
    env["TRITON_INTERPRET"] = "1"
    run(session, "pytest", "-m", "not gpu", *session.posargs, env=env)


@nox.session(name="tests-gpu", default=False, reuse_venv=True)
def tests_gpu(session: nox.Session) -> None:
    """Run the tests on this machine's GPU."""
    env = prepare(session, "test")
    run(session, "pytest", "-m", "not site and not slow", *session.posargs, env=env)


@nox.session(reuse_venv=True)
def lint(session: nox.Session) -> None:
    """Check style and types."""
    env = prepare(session, "lint")
    run(session, "ruff", "check", env=env)
    run(session, "ruff", "format", "--check", env=env)
    run(session, "mypy", env=env)


@nox.session(default=False, reuse_venv=True)
def links(session: nox.Session) -> None:
    """Follow every link of the site (needs the network)."""
    env = prepare(session, "docs")
    run(session, "sphinx", "-b", "linkcheck", "docs", str(ROOT / "docs" / "_build" / "links"), env=env)


if __name__ == "__main__":
    nox.main()
