"""Where a chapter's numbers come from: every GPU, software and method behind what it has shown."""

from dataclasses import dataclass

from kernels.lab import record
from kernels.lab.record import Source
from kernels.lab.show import Table, escape, wrap


@dataclass(frozen=True)
class Sources:
    """The provenance of a chapter's numbers."""

    runs: tuple[Source, ...]
    methods: tuple[str, ...]
    stale: int

    def _table(self) -> Table:
        facts = ("gpu", "driver", "cuda", "torch", "triton", "python", "date", "commit")
        names = ("GPU", "driver", "CUDA", "torch", "Triton", "Python", "measured on", "commit")
        rows = [
            (name, *(str(getattr(run, fact)) for run in self.runs))
            for name, fact in zip(names, facts, strict=True)
        ]
        rows.append(("this page", *("live" if run.live else "replayed from the record" for run in self.runs)))
        heads = (
            ("measured on",)
            if len(self.runs) == 1
            else tuple(f"run {i}" for i in range(1, len(self.runs) + 1))
        )
        return Table(("", *heads), rows)

    def _stale(self) -> str:
        return (
            f"{self.stale} of these numbers are stale: their code has changed since they were measured."
            if self.stale
            else ""
        )

    def __str__(self) -> str:
        lines = [str(self._table()), *(f"  Method: {method}." for method in self.methods), self._stale()]
        return "\n".join(line for line in lines if line)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        methods = "".join(f'<p class="lab-note">Method: {escape(method)}.</p>' for method in self.methods)
        stale = f'<p class="lab-stale">{self._stale()}</p>' if self.stale else ""
        return self._table()._repr_html_() + wrap(methods + stale, kind="lab-source")


def sources() -> Sources:
    """Return where the numbers shown so far in this process come from."""
    if not record.used:
        raise ValueError("no number has been measured or replayed yet, so there is no source to show")
    runs = {(s.gpu, s.date, s.commit, s.driver, s.torch, s.triton): s for s in record.used}
    methods = tuple(dict.fromkeys(source.method for source in record.used))
    return Sources(tuple(runs.values()), methods, sum(source.stale for source in record.used))
