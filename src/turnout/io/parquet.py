"""Frames as parquet files."""

import io

import polars as pl


def parquet(frame: pl.DataFrame) -> bytes:
    """Return the content of the parquet file of a frame."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
