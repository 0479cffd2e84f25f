"""Libraries that not everybody needs, which the extras of the package install."""

import importlib
from typing import Any

from turnout.core.errors import UserError


class MissingExtraError(UserError):
    """A library that is not installed; the message says which extra installs it."""


def extra(module: str, needed_for: str, name: str) -> Any:
    """Import a `module` of an extra; `MissingExtraError` where it is not installed.

    Args:
        module: Name of the module.
        needed_for: What needs it, for the message.
        name: Name of the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{needed_for} needs {module} ({error}): pip install 'turnout[{name}]'") from None
