"""The JavaScript that draws charts on a page."""

from typing import Any

import numpy as np

from turnout.core.extras import extra
from turnout.core.kept import kept


def converter() -> Any:
    """Return the module that draws Vega-Lite specifications; `MissingExtraError` where it is not installed."""
    return extra("vl_convert", "drawing charts", "report")


def script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which is kept, since bundling takes a second."""
    (content,) = kept("vega", (), ("vl-convert-python",), _bundle)
    return content.tobytes().decode()


def _bundle() -> list[np.ndarray]:
    """Return the script in UTF-8, as an array of bytes [n]."""
    script = converter().javascript_bundle().replace("</script", "<\\/script")
    return [np.frombuffer(script.encode(), np.uint8)]
