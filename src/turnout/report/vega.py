"""The JavaScript that draws charts on a page."""

import numpy as np

from turnout.core.kept import kept


def script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which is kept, since bundling takes a second."""
    (content,) = kept("vega", (), ("vl-convert-python",), _bundle)
    return content.tobytes().decode()


def _bundle() -> list[np.ndarray]:
    """Return the script in UTF-8, as an array of bytes [n]."""
    # Slow to import.
    import vl_convert

    script = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    return [np.frombuffer(script.encode(), np.uint8)]
