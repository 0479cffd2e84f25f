"""The modules that make the pages of the site, which are no package."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "mkdocs_hooks"


def hook(name: str) -> ModuleType:
    """Return a module of the folder mkdocs_hooks."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
