"""From the columns of a table to features: numbers, dates, categories and gaps, by rules that are fitted on training rows."""

import json
import re
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from turnout.core.errors import UserError, caution
from turnout.core.records import Count, config
from turnout.data.scaling import Scaling
from turnout.data.source import located

if TYPE_CHECKING:
    import polars as pl

Kind = TypeVar("Kind", bound=type)
Missing = Literal["refuse", "drop", "mean", "most frequent"]
SECONDS = {"seconds": 1, "days": 86400}


@dataclass(frozen=True)
class ColumnRule:
    """How one column becomes features.

    Args:
        name: The column.
        kind: "number", "date" or "category".
        unit: The unit of a date.
        categories: The categories that have a column each.
        other: Whether all others share a column.
        fill: What stands in the place of a missing value; None if there is nothing.
        indicator: Whether a column says where a value was missing.
    """

    name: str
    kind: Literal["number", "date", "category"]
    unit: Literal["days", "seconds"] | None = None
    categories: tuple[str, ...] = ()
    other: bool = False
    fill: float | str | None = None
    indicator: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        values = [f"{self.name}={value}" for value in (*self.categories, *(["other"] if self.other else []))]
        return [*(values if self.kind == "category" else [self.name]), *([f"{self.name}=missing"] if self.indicator else [])]


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """Fitted rules from the columns of a table to features, and the scaling of these.

    Args:
        columns: The rule of each column; None where features go as they are.
        drop: Whether rows with missing values are left out.
        scalings: The scalings of the features, one after another.
    """

    columns: tuple[ColumnRule, ...] | None = None
    drop: bool = False
    scalings: tuple[Scaling, ...] = ()

    def __eq__(self, other) -> bool:
        return isinstance(other, Preprocessing) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    @cached_property
    def json(self) -> str:
        """The rules as JSON, from which `preprocessing_of` makes them again."""
        return json.dumps(asdict(self))

    @property
    def digest(self) -> str:
        """A digest of the rules."""
        return sha256(self.json.encode()).hexdigest()

    def save(self, path: Path | str) -> None:
        """Write the rules to a JSON file.

        Args:
            path: The file.
        """
        from turnout.io.atomic import write

        write(Path(path), (self.json + "\n").encode())

    def scaled(self, features: Any) -> Any:
        """Return features, scaled as the training rows were.

        Args:
            features: Features [rows, d].
        """
        for scaling in self.scalings:
            features = scaling.scaled(features)
        return features

    def encoded(self, frame: "pl.DataFrame", name: str) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
        """Return the features of a table's rows [kept, d], the name of each, and which rows are kept [rows].

        Args:
            frame: The columns.
            name: The name of the table, for messages.

        Raises:
            UserError: A column is missing, or does not hold what it should.
        """
        held, kept = [], np.ones(len(frame), bool)
        for rule in self.columns or ():
            if rule.name not in frame.columns:
                raise UserError(f"{name} lacks the column {rule.name!r}, which the training data have: add it")
            values = converted(frame[rule.name], rule, name)
            missing = values.is_null().to_numpy()
            if missing.any() and rule.fill is None:
                kept &= ~missing
                if not self.drop:
                    raise UserError(
                        f"{name}: row {np.argmax(missing) + 1} lacks a value in column {rule.name!r}, for which the training "
                        "data have no rule: train with missing = 'mean', 'most frequent' or 'drop', or fill it in"
                    )
            held.append((rule, values if rule.fill is None else values.fill_null(rule.fill), missing))
        if not kept.any():
            raise UserError(f"{name} has no row without a missing value: fill some in")
        parts, names = [], []
        for rule, values, missing in held:
            part = _columns_of(values.filter(kept), rule, name)
            parts.append(part if not rule.indicator else np.column_stack([part, missing[kept]]))
            names += rule.names if len(rule.names) == parts[-1].shape[1] else [f"{rule.name}[{k}]" for k in range(part.shape[1])]
        if len({*names}) < len(names):
            twice = next(each for each in names if names.count(each) > 1)
            raise UserError(f"{name}: two features would be called {twice!r}: rename a column or a category")
        return np.concatenate(parts, axis=1, dtype=np.float64), tuple(names), kept


@config
class TableOptions:
    """How the columns of a table become features.

    Args:
        missing: What is done about missing values: "refuse" them, "drop" their rows, or fill in the "mean" (of categories: the
            most frequent one) or the "most frequent" value of the column.
        indicator: Whether each column with filled gaps gets a further one, such as `age=missing`, which is 1 there and else 0.
        categories: Columns that are categories, though they hold numbers.
        max_categories: The most columns that a column of categories becomes; the rarest share the last one, such as `city=other`.
        dates: The unit in which dates become numbers, from 1970-01-01 on; None refuses them.
        preprocessing: Rules that were fitted elsewhere, or a JSON file with them, in the place of rules fitted on these rows.
    """

    missing: Missing = field(default="refuse", kw_only=True)
    indicator: bool = field(default=False, kw_only=True)
    categories: list[str] | None = field(default=None, kw_only=True)
    max_categories: Count = field(default=100, kw_only=True)
    dates: Literal["days", "seconds"] | None = field(default=None, kw_only=True)
    preprocessing: str | Preprocessing | None = field(default=None, kw_only=True)

    @property
    def plain(self) -> bool:
        """Whether numbers without gaps are features as they are."""
        return (self.missing, self.categories, self.preprocessing) == ("refuse", None, None)


DEFAULTS = TableOptions()


def with_options_explained(cls: Kind) -> Kind:
    """Show the options of tables in the place of `**options` in the docstring of a class that has them.

    Args:
        cls: The class.
    """
    own = re.search(r"^ +missing: .*?(?=\n\n|\n *$|\Z)", TableOptions.__doc__ or "", re.MULTILINE | re.DOTALL)
    lines = textwrap.dedent(own[0] if own else "")
    cls.__doc__ = re.sub(r"^( +)\*\*options$", lambda at: textwrap.indent(lines, at[1]), cls.__doc__ or "", flags=re.MULTILINE)
    return cls


def fitted(frame: "pl.LazyFrame", options: TableOptions, refused: Callable[[int, str, str], UserError]) -> Preprocessing:
    """Return the rules for the columns of a table, fitted on all of its rows.

    Args:
        frame: The columns of features.
        options: How they become features.
        refused: Returns the error for a missing value, given its row, its column and a remedy.
    """
    rules, schema = [], frame.collect_schema()
    if options.missing == "drop":
        frame = frame.filter(*(~_gap(name, dtype) for name, dtype in schema.items()))
    for name, dtype in schema.items():
        rule = ColumnRule(name, _kind(name, dtype, options), options.dates if dtype.is_temporal() else None)
        column = frame.select(name)
        gaps, first = (
            column.select(_gap(name, dtype).sum().alias("gaps"), _gap(name, dtype).arg_max().alias("first")).collect().row(0)
        )
        if gaps and options.missing == "refuse":
            raise refused(first, name, "say missing = 'mean', 'most frequent' or 'drop', or fill it in")
        if rule.kind == "category":
            rule = _with_categories(rule, column, options)
        elif options.missing in ("mean", "most frequent") and not dtype.is_nested():
            rule = replace(rule, fill=_typical(column, rule, options.missing))
        rules.append(replace(rule, indicator=options.indicator and gaps > 0 and rule.fill is not None))
    return Preprocessing(tuple(rules), drop=options.missing == "drop")


def rules_of(options: TableOptions, folder: str | Path | None) -> Preprocessing | None:
    """Return the rules that the options name; None if they name none.

    Args:
        options: The options.
        folder: Where to look for the file before $TURNOUT_DATA.
    """
    if not isinstance(options.preprocessing, str):
        return options.preprocessing
    path = located(options.preprocessing, folder)
    return preprocessing_of(path.read_text(encoding="utf-8"), str(path))


def preprocessing_of(text: str, source: str) -> Preprocessing:
    """Return the rules that JSON holds.

    Args:
        text: The JSON.
        source: Where it comes from, for messages.

    Raises:
        UserError: It holds no rules.
    """
    try:
        content = json.loads(text)
        rules = None if content["columns"] is None else tuple(ColumnRule(**_frozen(rule)) for rule in content["columns"])
        return Preprocessing(rules, content["drop"], tuple(Scaling(**_frozen(each)) for each in content["scalings"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{source} holds no rules of preprocessing: give a file that turnout data show --save wrote") from None


def _frozen(entries: dict) -> dict:
    """Return the entries of a JSON object with tuples for lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entries.items()}


def converted(values: "pl.Series", rule: ColumnRule, name: str) -> "pl.Series":
    """Return a column as numbers or text, null where a value is missing.

    Args:
        values: The column.
        rule: Its rule.
        name: The name of the table, for messages.
    """
    import polars as pl

    dtype = values.dtype
    if dtype.is_nested():
        return values
    if rule.kind == "category":
        return _texts(values)
    if rule.kind == "date":
        if not (dtype.is_temporal() or dtype == pl.Null):
            raise UserError(f"{name}: column {rule.name!r} holds {dtype}, and the training data have dates there: give dates")
        return _seconds(values) / SECONDS[rule.unit or "seconds"]
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise UserError(f"{name}: column {rule.name!r} holds {dtype}, and the training data have numbers there: give numbers")
    return values.cast(pl.Float64).fill_nan(None)


def _kind(name: str, dtype: "pl.DataType", options: TableOptions) -> Literal["number", "date", "category"]:
    import polars as pl

    if dtype in (pl.String, pl.Categorical, pl.Enum) or name in (options.categories or ()):
        return "category"
    if dtype.is_temporal():
        if options.dates is None or dtype == pl.Time:
            remedy = (
                "leave it out" if dtype == pl.Time else "say dates = 'days' or 'seconds' to make numbers of them, or leave it out"
            )
            raise UserError(f"column {name!r} holds {'times of day' if dtype == pl.Time else 'dates'}: {remedy}")
        return "date"
    if not (dtype.is_numeric() or dtype.is_nested() or dtype in (pl.Boolean, pl.Null)):
        raise UserError(f"column {name!r} holds {dtype}, which is no number, date or text: leave it out")
    return "number"


def _gap(name: str, dtype: "pl.DataType") -> "pl.Expr":
    import polars as pl

    column = pl.col(name)
    return column.is_null() | column.is_nan() if dtype.is_float() else column.is_null()


def _with_categories(rule: ColumnRule, column: "pl.LazyFrame", options: TableOptions) -> ColumnRule:
    """Return a rule with the most frequent categories of a column, in their order."""
    counts = column.group_by(rule.name).len().collect(engine="streaming")
    texts = counts.with_columns(_texts(counts[rule.name])).drop_nulls().sort(["len", rule.name], descending=[True, False])
    known = texts[rule.name].to_list()
    fill = known[0] if known and options.missing in ("mean", "most frequent") else None
    if len(known) <= options.max_categories:
        return replace(rule, categories=tuple(sorted(known)), fill=fill)
    kept = sorted(known[: options.max_categories - 1])
    caution(
        f"column {rule.name!r} has {len(known):,} categories: the {len(kept)} most frequent have a column each, and the others "
        f"share '{rule.name}=other'"
    )
    return replace(rule, categories=tuple(kept), other=True, fill=fill)


def _typical(column: "pl.LazyFrame", rule: ColumnRule, how: Missing) -> float:
    """Return the mean of a column, or its most frequent value, the smallest of several."""
    values = converted(column.collect(engine="streaming").to_series(), rule, "the table").drop_nulls()
    if values.is_empty():
        raise UserError(f"column {rule.name!r} holds no value at all: leave it out")
    return float(values.mean() if how == "mean" else values.mode().min())  # pyright: ignore[reportArgumentType]


def _texts(values: "pl.Series") -> "pl.Series":
    """Return categories as text, whole numbers without a fraction, null where one is missing."""
    import polars as pl

    if values.dtype.is_float():
        whole = values.is_nan() | (values == values.round())
        values = values.fill_nan(None)
        values = values.cast(pl.Int64) if whole.all() else values
    return values.cast(pl.String)


def _seconds(values: "pl.Series") -> "pl.Series":
    import polars as pl

    if values.dtype == pl.Duration:
        return values.dt.total_microseconds().cast(pl.Float64) / 1e6
    return values.cast(pl.Datetime("us")).cast(pl.Int64).cast(pl.Float64) / 1e6


def _columns_of(values: "pl.Series", rule: ColumnRule, name: str) -> np.ndarray:
    """Return the numbers of a column without gaps [rows, features]; rows with gaps hold anything."""
    if values.dtype.is_nested():
        return np.stack(values.to_list()).astype(np.float64).reshape(len(values), -1)
    if rule.kind != "category":
        return values.to_numpy().astype(np.float64)[:, None]
    texts = values.fill_null("").to_numpy()
    columns = [texts == category for category in rule.categories]
    others = ~np.any(columns, axis=0) if columns else np.ones(len(texts), bool)
    others &= values.is_not_null().to_numpy()
    if rule.other:
        columns.append(others)
    elif others.any():
        caution(
            f"{name} has {texts[others][0]!r} in column {rule.name!r}, which the training data lack there: it is taken as none "
            "of their categories"
        )
    return np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((len(texts), 0))
