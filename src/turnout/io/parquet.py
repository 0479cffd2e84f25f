"""Frames as parquet files."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def parquet(frame: "pl.DataFrame") -> bytes:
    """Return the content of the parquet file of a frame."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
