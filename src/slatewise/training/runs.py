"""A run on disk: one directory with everything a model needs, readable by anybody."""

import json
import os
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from slatewise.errors import InputError, SlatewiseError

FORMAT: Final = "slatewise-run"
VERSION: Final = 1


def write_json(file: Path, value: dict[str, Any]) -> None:
    """Write a JSON file that appears whole or not at all."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, file)  # noqa: PTH105 (the one call that is atomic by contract)


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON file of a run, or say what is wrong with it."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            "this is not a run: the file is missing.",
            "Make one with: slatewise train DATASET RUN",
            file=file,
        ) from error
    except (OSError, ValueError) as error:
        raise InputError("the file is damaged.", "Train again.", file=file) from error
    if not isinstance(value, dict):
        raise InputError("the file is damaged.", "Train again.", file=file)
    return value


def write_tensors(file: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    """Write tensors with a few words about them, whole or not at all."""
    partial = file.with_suffix(".partial")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial, about)
    os.replace(partial, file)  # noqa: PTH105


def read_tensors(file: Path, expected: dict[str, torch.Size] | None = None) -> dict[str, Tensor]:
    """Read tensors, refusing a damaged file or one of another model."""
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(
            "the file is missing or damaged.", "Copy it again, or train again.", file=file
        ) from error
    if expected is not None:
        found = {name: tensor.shape for name, tensor in tensors.items()}
        if found != expected:
            odd = sorted(set(found.items()) ^ set(expected.items()))[0]
            raise InputError(
                f"the tensors are not those of this model ('{odd[0]}').",
                "The files of a run belong together: copy the whole directory.",
                file=file,
            )
    return tensors


def require_match(run: dict[str, Any], key: str, value: object, remedy: str) -> None:
    """Refuse to go on with a run that was started otherwise."""
    if run.get(key) != value:
        raise SlatewiseError(f"the run was started with another {key.replace('_', ' ')}.", remedy)
