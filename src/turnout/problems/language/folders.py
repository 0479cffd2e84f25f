"""Models in folders as `save_pretrained` of transformers leaves them: config.json and weights in the format safetensors."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Pretrained:
    """The weights of a folder. Those of equal files are equal, so that they share compiled programs.

    Args:
        digest: A digest of the files.
        folder: The folder.
        arrays: The weights by name.
    """

    digest: str
    folder: str = field(compare=False)
    arrays: dict[str, np.ndarray] = field(compare=False, repr=False)

    @classmethod
    def read(cls, folder: Path, renamed: dict[str, str]) -> "Pretrained":
        """Return the weights of a folder, in single precision.

        Args:
            folder: The folder.
            renamed: Names of weights here by those of other versions.

        Raises:
            UserError: The weights are missing, unreadable or not finite.
        """
        files = weight_files(folder)
        arrays = {}
        for file in files:
            for name, array in _arrays(file):
                if not np.isfinite(array).all():
                    raise UserError(f"{file}: {name} is NaN or infinite: copy the weights again")
                arrays[renamed.get(name, name)] = array
        return cls(digest_of(folder), str(folder), arrays)

    def into(self, like: PyTree, head: tuple[str, ...] = ()) -> PyTree:
        """Return a network with these weights in the place of its own.

        Args:
            like: The network.
            head: Parts that may be missing or of another shape, and are then those of `like`.

        Raises:
            UserError: A weight is missing, or has another shape.
        """
        leaves = []
        for name, leaf in leaves_by_name(like).items():
            array = self.arrays.get(name)
            if array is not None and array.shape == leaf.shape:
                leaves.append(jnp.asarray(array, leaf.dtype))
                continue
            if name.partition(".")[0] not in head:
                what = "lack" if array is None else "have another shape of"
                raise UserError(f"the weights in {self.folder} {what} {name}: give weights of the architecture in {CONFIG}")
            leaves.append(leaf)
        return jax.tree.unflatten(jax.tree.structure(like), leaves)


def read_config(kind: type, folder: Path) -> Any:
    """Return the numbers of a model by its config.json.

    Args:
        kind: The class of the numbers.
        folder: The folder.

    Raises:
        UserError: There is no such file, or it is that of another architecture.
    """
    entries = kind.read(entries_of(folder, kind.model_type))
    config = kind(**{part.name: entries[part.name] for part in fields(kind) if part.name in entries})
    config.check()
    return config


def entries_of(folder: Path, model_type: str) -> dict[str, Any]:
    """Return the entries of a config.json; `UserError` where there is no such file, or it is that of another architecture.

    Args:
        folder: The folder.
        model_type: The architecture.
    """
    file = folder / CONFIG
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        found = entries["model_type"]
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}): give a folder that save_pretrained wrote") from None
    except (ValueError, LookupError, TypeError):
        raise UserError(f"{file} names no model_type: give a folder that save_pretrained wrote") from None
    if found != model_type:
        raise UserError(f"{folder} holds a model of the architecture {found!r}, not {model_type!r}: give another folder")
    return entries


def write_model(folder: Path, config: Any, x: PyTree, like: PyTree, labels: Iterable | None = None) -> None:
    """Write a folder that `from_pretrained` of transformers reads.

    Args:
        folder: The folder, which is made where there is none.
        config: The numbers of the model.
        x: The network, or its leaves by name.
        like: The network, or its shapes.
        labels: The label of each class; None for a language model.

    Raises:
        UserError: x has other leaves, or the folder cannot be written.
    """
    # Slow to import.
    from safetensors.numpy import save

    numbers = {part.name: getattr(config, part.name) for part in fields(config)}
    entries = {"architectures": [config.architecture], "model_type": config.model_type, **numbers, **config.written()}
    if labels is not None:
        names = {str(k): str(label) for k, label in enumerate(labels)}
        entries |= {"id2label": names, "label2id": {name: int(k) for k, name in names.items()}}
    arrays = {name: np.ascontiguousarray(leaf) for name, leaf in leaves_by_name(x).items()}
    for name in sorted(arrays.keys() ^ leaves_by_name(like).keys()):
        what = "has" if name in arrays else "lacks"
        raise UserError(f"x {what} {name}, unlike the network: give all of its leaves, those with adapters by problem.merged(x)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
        (folder / WEIGHTS).write_bytes(save(arrays, {"format": "pt"}))
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}): choose another folder") from None


def weight_files(folder: Path) -> list[Path]:
    """Return the files of a folder with weights; `UserError` where there are none."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        try:
            names = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        except (ValueError, LookupError, AttributeError):
            raise UserError(f"{folder / INDEX} is no index of weights: copy the folder again") from None
        return [folder / name for name in sorted({*names})]
    raise UserError(f"{folder} has no {WEIGHTS}: save the model with save_pretrained, in the format safetensors")


def digest_of(folder: Path) -> str:
    """Return a digest of the configuration and the weights in a folder."""
    total = sha256()
    for file in (folder / CONFIG, *weight_files(folder)):
        with open(file, "rb") as content:
            total.update(file_digest(content, "sha256").digest())
    return total.hexdigest()


def _arrays(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the floating-point arrays of a file by their names, in single precision: half is too coarse for training."""
    # Slow to import.
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "np") as content:
            for name in content.keys():
                array = content.get_tensor(name)
                if jnp.issubdtype(array.dtype, jnp.floating):
                    yield name, array.astype(np.float32)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file}: the weights cannot be read ({error}): copy them again") from None
