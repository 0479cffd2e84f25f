"""The JavaScript that draws charts on a page."""

import subprocess
import sys
from concurrent.futures import Future
from functools import cache
from typing import Any

import numpy as np

from turnout.core.background import in_background
from turnout.core.extras import MissingExtraError, extra
from turnout.core.kept import kept


def converter() -> Any:
    """Return the module that draws Vega-Lite specifications; `MissingExtraError` where it is not installed."""
    return extra("vl_convert", "drawing charts", "report")


def script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which is kept, since bundling takes two seconds."""
    try:
        return script_ahead().result()
    except MissingExtraError:
        # It may be installed before the next page.
        script_ahead.cache_clear()
        raise


@cache
def script_ahead() -> Future[str]:
    """Return the future `script()`, which is made beside the run whose page needs it."""
    return in_background(_script)


def _script() -> str:
    (content,) = kept("vega", (), ("vl-convert-python",), _bundle)
    return content.tobytes().decode()


def _bundle() -> list[np.ndarray]:
    """Return the script in UTF-8, as an array of bytes [n]."""
    library = converter()
    # In another process, since the library lets no other thread of its process work meanwhile.
    bundle = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
    done = subprocess.run([sys.executable, "-c", bundle], capture_output=True)
    # A new process may lack the library, where somebody changed `sys.path`.
    made = library.javascript_bundle().encode() if done.returncode else done.stdout
    return [np.frombuffer(made.replace(b"</script", b"<\\/script"), np.uint8)]
