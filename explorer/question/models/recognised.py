"""Files of the field that hold weights or settings and no graph: what they are, and what to give instead."""

from __future__ import annotations

import json
from pathlib import Path

WEIGHTS = "holds weights, and no graph of operators"
CODE = "give the code that makes the model, package.module:callable or file.py:callable"
FOLDER = "give its folder or config.json as hf:FOLDER"


def instead(path: str, head: bytes) -> str | None:
    """What a file is and what to give in its place; None for one that is not known. head: how it begins."""
    suffix = Path(path).suffix.lower()
    if len(head) >= 9 and head[8:9] == b"{" and (suffix == ".safetensors" or head[9:10] in b'"}'):
        return f"safetensors: {WEIGHTS}; {_of_hugging_face(path)}"
    if head.startswith(b"GGUF"):
        return f"GGUF: {WEIGHTS} that PyTorch runs; {_of_hugging_face(path)}"
    if head.startswith(b"\x89HDF"):
        return f"HDF5 (Keras): {WEIGHTS} that PyTorch runs; {CODE}"
    if suffix == ".ckpt":
        return f"a checkpoint {WEIGHTS}; {CODE}"
    if suffix == ".py":
        return f"code; name what makes the model: {path}:make, a function that returns (module, example inputs)"
    return None


def folder_instead(path: str) -> str:
    """The same of a folder."""
    if (Path(path) / "config.json").is_file():
        return f"is a directory of Hugging Face; give hf:{path}"
    return f"is a directory; {CODE}"


def config_instead(value: object, path: str) -> str | None:
    """The same of a JSON text."""
    if isinstance(value, dict) and ("model_type" in value or "architectures" in value):
        return f"a config of transformers: give hf:{path}"
    if isinstance(value, dict) and "_class_name" in value:
        return f"a config of diffusers: {CODE}"
    if isinstance(value, dict) and isinstance(value.get("weight_map"), dict):
        return f"an index of safetensors: {WEIGHTS}; {FOLDER}"
    return None


def _of_hugging_face(path: str) -> str:
    folder = Path(path).parent
    try:
        known = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"{FOLDER}, or {CODE.removeprefix('give ')}"
    return f"give hf:{folder}" if isinstance(known, dict) and "model_type" in known else CODE
