"""The results of a run, read from its folder."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pydantic

from turnout.accounting.ledger import EVENTS, NEW
from turnout.accounting.prices import FORMER_KINDS, KnownPrice, Price
from turnout.accounting.target import Target, smaller_better
from turnout.core.errors import UserError
from turnout.core.named_class import named_class
from turnout.theory.feddcd import LowerBound, dual_gap

PRICE = pydantic.TypeAdapter(KnownPrice)
TARGET = pydantic.TypeAdapter(Target)
LOWER = pydantic.TypeAdapter(LowerBound)


@dataclass(frozen=True)
class Result:
    """The results of one run.

    Args:
        label: The name of the run in a report.
        summary: The content of `summary.json`.
        trace: The rows of `trace.parquet`: metrics and cumulative events of each evaluated round.
        config: The text of `config.toml`, if there is one.
    """

    label: str
    summary: dict
    trace: pl.DataFrame
    config: str | None = None

    @classmethod
    def read(cls, folder: Path | str, label: str | None = None) -> "Result":
        """Read the run in `folder`; the default label is its name.

        Args:
            folder: Folder of a run.
            label: Name of the result; None takes that of the run.
        """
        folder = Path(folder)
        summary = _summary(folder)
        config = folder / "config.toml"
        try:
            text = config.read_text(encoding="utf-8") if config.exists() else None
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{config}: cannot be read as UTF-8 text: restore it or remove it") from None
        result = cls(label or str(summary.get("name") or folder.name), summary, _trace(folder), text)
        result.check(folder)
        return result

    def cost(self, price: Price) -> float:
        """Return the cost up to the target if it was reached, and else of the whole run."""
        return float(np.asarray(price.cost(self.trace))[-1 if self.hit is None else self.hit])

    @property
    def prices(self) -> list[Price]:
        """The prices that the run was configured with."""
        stored = self.summary.get("prices") or []
        return [_price(**price) for price in stored]

    @property
    def target(self) -> Target | None:
        """The target of the run, if it has one."""
        target = self.summary.get("target")
        return target and TARGET.validate_python({"metric": target.get("metric"), "below": target.get("below")})

    @property
    def hit(self) -> int | None:
        """The index of the first trace row that meets the target; None if there is none."""
        return self.target.first_hit(self.trace) if self.target else None

    @property
    def bound(self) -> np.ndarray | None:
        """The theorem's bound on E|x_t - x*|^2 for each trace row; None if there is none."""
        theory = self.summary.get("theory") or {}
        if "bound" not in theory:
            return None
        rate, start, neighbourhood = (float(theory["bound"][name]) for name in ("rate", "start", "neighbourhood"))
        return rate ** self.trace["round"].to_numpy().astype(float) * start + neighbourhood

    @property
    def dual_bound(self) -> np.ndarray | None:
        """The theorem's bound on E[G(y) - G*] for each trace row; None if there is none."""
        bound = (self.summary.get("theory") or {}).get("bound", {})
        if bound.get("dual") is None or "dual_gap" not in self.trace.columns:
            return None
        return dual_gap(self.trace["round"].to_numpy(), float(bound["rate"]), self.trace["dual_gap"][0], float(bound["dual"]))

    @property
    def lower(self) -> LowerBound | None:
        """The lower bound of all methods; None if there is none."""
        lower = (self.summary.get("theory") or {}).get("lower")
        return lower and LOWER.validate_python(lower)

    @property
    def floor(self) -> float | None:
        """E|x - x*|^2 of the minimiser of one cohort; None if it is not known."""
        floor = (self.summary.get("theory") or {}).get("floors", {}).get("1")
        return None if floor is None else float(floor)

    def values(self, metric: str) -> np.ndarray:
        """Return the metric of each trace row; of an accuracy the error rate, so that smaller is better."""
        if metric not in self.trace.columns:
            raise UserError(f"{self.label} has no metric {metric!r}: run it again with that metric, or choose another")
        return smaller_better(metric, self.trace[metric].to_numpy())

    def check(self, folder: Path) -> None:
        """Raise `UserError` if the summary or the trace is not valid."""
        try:
            target, _ = self.target, (self.prices, self.bound, self.dual_bound, self.floor, self.lower)
        except (pydantic.ValidationError, AttributeError, KeyError, TypeError, ValueError):
            raise UserError(f"{folder / 'summary.json'}: its prices, target or theory are not valid: run again") from None
        needed = ["round", *EVENTS, *([target.metric] if target else [])]
        for name in needed:
            if name not in self.trace.columns or not self.trace.schema[name].is_numeric():
                raise UserError(f"{folder / 'trace.parquet'}: column {name!r} is missing or not numeric: run again")


def _price(kind: str, **fields) -> Price:
    """Return a stored price."""
    if ":" in kind:
        return named_class(kind, Path())(**fields)
    return PRICE.validate_python({"kind": FORMER_KINDS.get(kind, kind), **fields})


def _summary(folder: Path) -> dict:
    path = folder / "summary.json"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = f"turnout resume {folder} finishes it" if (folder / "config.toml").exists() else "give the folder of a run"
        raise UserError(f"{folder} holds no finished run: there is no summary.json, {hint}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read ({_reason(error)}): restore it or run again") from None
    if not isinstance(summary, dict):
        raise UserError(f"{path}: must hold one JSON object, but holds a {type(summary).__name__}: run again")
    return summary


def _trace(folder: Path) -> pl.DataFrame:
    path = folder / "trace.parquet"
    try:
        trace = pl.read_parquet(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{folder} holds no trace.parquet: give the folder of a finished run") from None
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise UserError(f"{path}: cannot be read ({_reason(error)}): restore it or run again") from None
    if trace.is_empty():
        raise UserError(f"{path}: holds no rows: run again")
    missing = {name: flat for name, flat in NEW.items() if name not in trace.columns}
    return trace.with_columns((pl.lit(0) if flat is None else pl.col(flat)).alias(name) for name, flat in missing.items())


def _reason(error: BaseException) -> str:
    """Return the first line of an error."""
    return getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
