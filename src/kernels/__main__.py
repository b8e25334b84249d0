"""The command line: `python -m kernels doctor` and `python -m kernels record`."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path


def doctor() -> int:
    """Print what this machine has and what is wrong with it; prove that a kernel compiles and runs.

    Returns 0 only if it does: on the GPU where there is one, else compiled for a GPU and run in the interpreter.
    """
    from kernels.lab import _mode
    from kernels.lab.machine import machine

    found = machine()
    print(found, end="\n\n", flush=True)
    if found.gpu is None and any("There is an NVIDIA GPU" in problem.what for problem in found.problems):
        print("✗ This machine's GPU cannot be used: see the remedy above.")
        return 1
    # In a child process, because a failing compiler can end Python itself.
    proof = subprocess.run(
        [sys.executable, "-m", "kernels.lab._proof"], check=False, capture_output=True, text=True, timeout=300
    )
    if proof.returncode == 0:
        print(f"✓ {proof.stdout.strip()}")
        return 0
    where = "on this GPU" if _mode.HAS_GPU else "without a GPU"
    last = (proof.stderr.strip() or f"it ended with code {proof.returncode}").splitlines()[-1]
    print(f"✗ A kernel could not be compiled and run {where}: {last}", file=sys.stderr)
    print(f"  The whole error:\n{proof.stderr}", file=sys.stderr)
    return 1


def record(places: list[Path]) -> int:
    """Run every script on this machine's GPU, and write what it measures into its record."""
    from kernels.lab import _mode
    from kernels.lab import record as records

    if not _mode.live():
        print(
            "✗ There is nothing to record: this process sees no CUDA GPU. Run `python -m kernels doctor`.",
            file=sys.stderr,
        )
        return 1
    scripts = [
        script for place in places for script in (sorted(place.glob("*.py")) if place.is_dir() else [place])
    ]
    if not scripts or not all(script.is_file() for script in scripts):
        print(
            f"✗ No script in {', '.join(map(str, places))}: name scripts, or folders of them.",
            file=sys.stderr,
        )
        return 1
    print(records.describe(), flush=True)
    for index, script in enumerate(scripts, 1):
        started = time.monotonic()
        print(f"[{index}/{len(scripts)}] {script.name} ...", flush=True)
        env = {**os.environ, "KERNELS_STRICT": "1"}
        done = subprocess.run(
            [sys.executable, str(script)],
            check=False,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            print(
                done.stdout,
                done.stderr,
                f"✗ {script.name} failed; the record keeps what was measured before.",
                sep="\n",
            )
            return 1
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
    return 0


def main() -> int:
    """Run one command of the command line."""
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="what this machine has, what is wrong with it, and how to mend it")
    recording = commands.add_parser("record", help="measure every chapter on this GPU and save the record")
    recording.add_argument(
        "places", nargs="*", type=Path, default=[Path("tutorials")], help="scripts, or folders of them"
    )
    arguments = parser.parse_args()
    return doctor() if arguments.command == "doctor" else record(arguments.places)


if __name__ == "__main__":
    sys.exit(main())
