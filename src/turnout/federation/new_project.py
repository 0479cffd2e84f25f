"""A new project for a federation with clients of the user's own."""

from importlib.resources import files
from pathlib import Path
from typing import Literal

from jinja2 import Template

from turnout.core.errors import UserError
from turnout.io.atomic import write
from turnout.io.claims import claimed, holds_files

Form = Literal["torch", "numpy", "jax"]

LOCAL = {
    "torch": "lr = 0.1\nbatch = 32              # rows of a local step\nepochs = 1              # passes over a client's rows",
    "numpy": "lr = 0.1\nsteps = 5               # local steps",
    "jax": "lr = 0.5\nsteps = 5               # local steps",
}
SHARED_FILES = ("README.md", "federation.toml", "pyproject.toml", "apps.py")
NEEDS = {"torch": "PyTorch", "numpy": "nothing else", "jax": "nothing else"}


def new_project(folder: Path, form: Form) -> list[Path]:
    """Write a project with clients in the framework `form` to a new `folder`, and return its files.

    Args:
        folder: A new or empty folder.
        form: "torch", "numpy" or "jax".
    """
    sources = {**{name: name for name in SHARED_FILES}, "clients.py": f"{form}_clients.py"}
    words = {"classifies": str(form != "numpy").lower(), "local": LOCAL[form], "needs": NEEDS[form]}
    return written(folder, {name: template(source, words) for name, source in sources.items()})


def template(source: str, words: dict[str, str]) -> str:
    """Return a file of the template.

    Args:
        source: Its name.
        words: What is filled in.
    """
    return Template((files("turnout.federation.template") / source).read_text(), keep_trailing_newline=True).render(words)


def written(folder: Path, contents: dict[str, str]) -> list[Path]:
    """Write files to a new or empty folder, and return them.

    Args:
        folder: The folder.
        contents: The text of each file, by name.
    """
    with claimed(folder):
        if holds_files(folder):
            raise UserError(f"{folder} is not empty: choose another folder")
        for name, text in contents.items():
            write(folder / name, text)
    return [folder / name for name in contents]
