"""Save measurements, load them strictly, tell which are stale, and replay them where there is no GPU.

A record is one JSON file per GPU model. The package carries those of the published pages, which are replayed where
there is no GPU; `KERNELS_RECORDS` names another directory to replay from. A machine with a GPU writes its own to the user's
state directory, or to `KERNELS_RECORDS_OUT` where that is set.
"""

import ast
import contextlib
import datetime
import fcntl
import hashlib
import inspect
import json
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema

from kernels.lab import _mode, _source
from kernels.lab.machine import machine
from kernels.lab.show import asset

SCHEMA = 1
REFERENCE = "nvidia-h200"
"""The record whose GPU the published pages show, and whose false claims fail a strict build."""


class RecordError(RuntimeError):
    """A record is missing, damaged, or not one that this version can read."""


class StaleError(RecordError):
    """The code of a recorded number has changed since it was measured, and the build is strict."""


@dataclass(frozen=True)
class Source:
    """Where a number comes from: the GPU, its software, the code, and whether it was measured here and now."""

    gpu: str
    live: bool
    stale: bool
    is_reference: bool
    date: str
    commit: str
    driver: str
    cuda: str
    torch: str
    triton: str
    python: str
    method: str

    @property
    def line(self) -> str:
        """The small print below a number."""
        how = "live" if self.live else "replayed from the record"
        stale = " STALE: the code has changed since this was measured." if self.stale else ""
        return f"{self.gpu}, {self.date}, {how}.{stale}"

    @property
    def full(self) -> str:
        """Everything that the record knows about where the number comes from."""
        return (
            f"{self.gpu}, driver {self.driver}, CUDA {self.cuda}, torch {self.torch}, Triton {self.triton}, "
            f"Python {self.python}, {self.date}, commit {self.commit}. Method: {self.method}."
        )


used: list[Source] = []
"""The sources of the numbers that this process has shown, in order; a chapter ends with them."""


def fingerprint(*things: Any) -> str:
    """Return 16 hexadecimal digits that change when the behaviour of the things may have changed.

    Functions and Triton kernels stand for the syntax of everything they reach in this project or script, so a comment,
    a docstring or the layout of the code does not count. Other values stand for themselves.
    """
    roots = [inner for thing in things if inspect.isfunction(inner := _source.unwrap(thing))]
    reached = _source.closure(*roots)
    # Names without their module: a chapter is `__main__` as a script and something else in a test.
    parts = sorted(
        f"{name.rpartition('.')[2]}={_canonical(_source.tree(value))}"
        if inspect.isfunction(value)
        else f"{name.rpartition('.')[2]}={_source.plain(value)}"
        for name, value in reached.items()
    )
    parts += [_source.plain(thing) for thing in things if not inspect.isfunction(_source.unwrap(thing))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _canonical(node: Any) -> Any:
    """Return a syntax tree as nested tuples that are the same on every Python version."""
    if isinstance(node, ast.AST):
        fields = [(name, _canonical(value)) for name, value in ast.iter_fields(node) if name != "kind"]
        return (type(node).__name__, *((name, value) for name, value in fields if value not in (None, ())))
    if isinstance(node, list):
        return tuple(_canonical(item) for item in node if not _is_docstring(item))
    return node


def _is_docstring(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


# --- files ---------------------------------------------------------------------------------------------------------


def directory() -> Path:
    """Return where this process writes its record."""
    if chosen := os.environ.get("KERNELS_RECORDS_OUT"):
        return Path(chosen)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "first-fast-kernel" / "records"


def packaged() -> Path:
    """Return the directory of the records that travel with the package."""
    return Path(str(files("kernels") / "records"))


def slug(gpu: str) -> str:
    """Return a GPU's name as a file name: `NVIDIA H200` is `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")


def load(path: Path) -> dict[str, Any]:
    """Read a record, and refuse it if anything in it is not as the schema says.

    Raises
    ------
    RecordError
        The file is missing, not JSON, truncated, of another version, or has a field that is missing, unknown or out of
        range. The message names the field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"the record {path} cannot be read: {error}") from error
    try:
        record = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise RecordError(
            f"the record {path} is not valid JSON, perhaps cut short: {error}. {_REMEDY}"
        ) from error
    _validate(record, path)
    return dict(record)


_REMEDY = "Restore it (`git checkout` for the package's own), or delete it and measure again with `nox -s record` on a GPU."


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(asset("record.schema.json")))


def _validate(record: Any, path: Path) -> None:
    version = record.get("schema") if isinstance(record, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA:
        raise RecordError(
            f"the record {path} has schema {version}, and this version of the workshop reads {SCHEMA}: update it"
        )
    errors = sorted(_validator().iter_errors(record), key=lambda error: error.json_path)
    if errors:
        raise RecordError(
            f"the record {path} is damaged at {errors[0].json_path}: {errors[0].message}. {_REMEDY}"
        )
    for key, entry in record["entries"].items():
        if entry["run"] not in record["runs"]:
            raise RecordError(
                f"the record {path} is damaged at $.entries.{key}.run: no run {entry['run']!r}. {_REMEDY}"
            )
        for index, row in enumerate(entry["values"].get("rows", ()) if entry["kind"] == "sweep" else ()):
            if not row["low"] <= row["seconds"] <= row["high"]:
                where = f"$.entries.{key}.values.rows[{index}]"
                raise RecordError(
                    f"the record {path} is damaged at {where}: the median lies outside its percentiles. {_REMEDY}"
                )
    for name, run in record["runs"].items():
        if slug(run["gpu"]) != slug(record["gpu"]):
            raise RecordError(
                f"the record {path} is damaged at $.runs.{name}.gpu: {run['gpu']} in a record of {record['gpu']}"
            )


def save(record: Mapping[str, Any], path: Path) -> None:
    """Write a record so that a reader finds the old one or the new one, never half of either."""
    _validate(record, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep two processes from each dropping what the other has measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.parent / f".{path.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- live and replayed -----------------------------------------------------------------------------------------------


@cache
def _this_run() -> tuple[str, dict[str, Any]]:
    facts = asdict(machine())
    del facts["problems"]
    facts |= {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "commit": _commit()}
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
    return f"{facts['date']}-{name}", facts


def _commit() -> str:
    """The commit of the code that measures: GitHub's variable where it is set, else git's answer in a checkout."""
    if commit := os.environ.get("GITHUB_SHA"):
        return commit[:12]
    here = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            check=False,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except OSError:
        return "unknown"
    return described.stdout.strip() or "unknown"


def _live_path() -> Path:
    return directory() / f"{slug(str(_this_run()[1]['gpu']))}.json"


def reference() -> dict[str, Any] | None:
    """Return the reference GPU's record, or None where the package carries none."""
    path = packaged() / f"{REFERENCE}.json"
    return _load_once(path, path.stat().st_mtime_ns) if path.exists() else None


@cache
def _load_once(path: Path, changed: int) -> dict[str, Any]:
    return load(path)


def replayed() -> dict[str, Any]:
    """Return the record that this process replays.

    Raises
    ------
    RecordError
        There is none, or it is damaged. The message says what to do.
    """
    chosen = os.environ.get("KERNELS_RECORDS")
    path = (Path(chosen) if chosen else packaged()) / f"{REFERENCE}.json"
    if not path.exists():
        raise RecordError(
            f"there is no CUDA GPU to measure on, and no record to replay at {path}. Run `nox -s record` on a machine with a "
            "GPU, or unset KERNELS_RECORDS to replay the record that travels with the package."
        )
    return _load_once(path, path.stat().st_mtime_ns)


def rows(key: str) -> list[dict[str, Any]]:
    """Return the rows of a sweep as they stand in the record that this process writes or replays.

    Raises
    ------
    RecordError
        Nothing is recorded under the key, or the entry is no sweep.
    """
    record = load(_live_path()) if _mode.live() and _live_path().exists() else replayed()
    entry = record["entries"].get(key)
    if entry is None or entry["kind"] != "sweep":
        raise RecordError(
            f"no sweep is recorded under {key!r} for {record['gpu']}; there are {sorted(record['entries'])}"
        )
    return list(entry["values"]["rows"])


def _source_of(run: Mapping[str, Any], *, live: bool, stale: bool = False, method: str = "") -> Source:
    names = ("gpu", "date", "commit", "driver", "cuda", "torch", "triton", "python")
    is_reference = slug(run["gpu"]) == REFERENCE
    return Source(
        live=live, stale=stale, is_reference=is_reference, method=method, **{n: str(run[n]) for n in names}
    )


def replayed_run() -> dict[str, Any]:
    """Return the facts of the machine whose latest run this process replays.

    Raises
    ------
    RecordError
        As `replayed`, and for a record that holds no measurement.
    """
    runs = replayed()["runs"]
    if not runs:
        raise RecordError("the record holds no measurements yet: run `nox -s record` on a machine with a GPU")
    return dict(runs[max(runs)])


def current() -> Source:
    """Return the source of the numbers that this process shows."""
    if _mode.live():
        return _source_of(_this_run()[1], live=True)
    return _source_of(replayed_run(), live=False)


def recorded(
    key: str, *, kind: str, method: str, fingerprint: str, take: Callable[[], dict[str, Any]]
) -> tuple[dict[str, Any], Source]:
    """Take a measurement and save it, or replay it where there is no GPU.

    Parameters
    ----------
    key
        The entry's name, unique in the workshop.
    kind
        `"sweep"`, `"observation"` or `"counters"`.
    method
        How it is measured, in words that change when the method does.
    fingerprint
        Of the code that is measured, see `fingerprint`.
    take
        Measures, and returns plain data in SI units. Never called when replaying.

    Raises
    ------
    RecordError
        Nothing is recorded under the key.
    StaleError
        The recorded code or method is not the present one, and the build is strict.
    """
    if _mode.live():
        entry = {
            "kind": kind,
            "fingerprint": fingerprint,
            "method": method,
            "run": _this_run()[0],
            "values": rounded(take()),
        }
        _store(key, entry)
        used.append(_source_of(_this_run()[1], live=True, method=method))
        return entry["values"], used[-1]
    record = replayed()
    entry = record["entries"].get(key)
    if entry is None:
        known = ", ".join(sorted(record["entries"])) or "none"
        raise RecordError(
            f"nothing is recorded under {key!r} for {record['gpu']}. Run `nox -s record` on a machine with a GPU. Recorded: {known}"
        )
    stale = entry["fingerprint"] != fingerprint or entry["method"] != method
    if stale and _mode.strict():
        raise StaleError(
            f"the number recorded under {key!r} for {record['gpu']} is stale: its code has changed since it was measured. "
            "Run `nox -s record` on that GPU and commit the record."
        )
    run = record["runs"][entry["run"]]
    used.append(_source_of(run, live=False, stale=stale, method=entry["method"]))
    return entry["values"], used[-1]


def _store(key: str, entry: dict[str, Any]) -> None:
    path, (run, facts) = _live_path(), _this_run()
    with _locked(path):
        record = (
            load(path)
            if path.exists()
            else {"schema": SCHEMA, "gpu": facts["gpu"], "runs": {}, "entries": {}}
        )
        record["entries"][key] = entry
        record["runs"][run] = facts
        used = {e["run"] for e in record["entries"].values()}
        record["runs"] = {name: value for name, value in record["runs"].items() if name in used}
        save(record, path)


def rounded(value: Any, significant: int = 4) -> Any:
    """Round every float in nested data to what a measurement supports, so that a record's diff reads well."""
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{significant}g}")
    if isinstance(value, Mapping):
        return {str(key): rounded(item, significant) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, significant) for item in value]
    return value


@dataclass(frozen=True)
class Observation(Mapping[str, Any]):
    """Values that a function of the chapter measured in its own way, with their source."""

    name: str
    values_: Mapping[str, Any]
    source: Source

    def __getitem__(self, key: str) -> Any:
        return self.values_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


def observe(name: str, take: Callable[[], dict[str, Any]]) -> Observation:
    """Record and replay what a function measures in its own way.

    Use it for what a sweep cannot say: the wrong ways to time, a chase through memory. The function takes no argument and
    returns plain data in SI units: numbers, text, lists and dictionaries.
    """
    method = "as the function on the page does it"
    values, source = recorded(
        name, kind="observation", method=method, fingerprint=fingerprint(take), take=take
    )
    return Observation(name, values, source)


def describe() -> str:
    """Say in one line what a build or a script is about to do for its numbers."""
    if _mode.live():
        return f"Measuring live on {_this_run()[1]['gpu']}; the record goes to {_live_path()}."
    return f"No measurements are taken here: replaying the record of {replayed()['gpu']}."
