"""A configuration as an app of Flower."""

from pathlib import Path

from turnout.experiment.config import read
from turnout.federation.new_project import template, written


def flower(file: Path | str, folder: Path | str) -> list[Path]:
    """Write a configuration as an app of Flower, which `flwr run` starts, to a new or empty folder, and return its files.

    The app is a pyproject.toml with a ServerApp and a ClientApp, which run the configuration beside it. The Python files that the
    configuration names are not copied: put them there too. `turnout new-federation` writes such a folder with clients to edit.

    Args:
        file: The configuration (TOML).
        folder: The folder.

    Raises:
        UserError: The file is no configuration, or the folder is not empty.

    Examples:
        >>> import turnout as t
        >>> files = t.export.flower("fedavg.toml", "app")  # doctest: +SKIP
    """
    read(Path(file))
    contents = {name: template(name, {}) for name in ("pyproject.toml", "apps.py")}
    return written(Path(folder), contents | {"federation.toml": Path(file).read_text(encoding="utf-8-sig")})
