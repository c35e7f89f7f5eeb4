"""A model of `transformers` from a folder, a config.json, or a type with its default config."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from pathlib import Path
from typing import Any

from explorer.question.models.example import Example, Made
from explorer.question.models.making import Making, declare_missing
from solvers.errors import TraceError

SEQUENCE = 512
"""Tokens of a sample where nobody says how many, or as many as the model has positions."""
IMAGE = 224
"""Pixels of a side where neither a person nor the config says."""
BATCH = 2
"""Samples of the example."""

CLASSES = (
    "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForSpeechSeq2Seq",
    "AutoModelForImageClassification",
    "AutoModelForImageTextToText",
    "AutoModel",
)
"""In this order where the config names no architecture: the first that has the type."""


def make(name: str, example: Example, training: bool, making: Making) -> Made:
    """See `libraries.make_of_library`. Raises what transformers raises, and TraceError."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is fetched, whatever a config says
    declare_missing()  # models of images import torchvision
    library: Any = importlib.import_module("transformers")
    config = _config(library, name)
    config.use_cache = False
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    kind = _class_of(library, config)
    with making.device:
        module = kind._from_config(config) if hasattr(kind, "_from_config") else kind.from_config(config)
    inputs, notes = _inputs(module, config, example, training, making)
    return module, inputs, notes


def _config(library: Any, name: str) -> Any:
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix == ".json" or path.exists():
        if not path.is_file():
            raise TraceError(f"there is no file {path}")
        stated = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(stated, dict) or "model_type" not in stated:
            raise TraceError(f"{path}: not a config of transformers: it states no model_type")
        return library.AutoConfig.for_model(stated.pop("model_type"), **stated)
    if name not in library.models.auto.configuration_auto.CONFIG_MAPPING:
        raise TraceError(
            "neither a folder, nor a config.json, nor a model type of transformers; nothing is downloaded, so fetch"
            " the model's config.json and give hf:FOLDER"
        )
    return library.AutoConfig.for_model(name)


def _class_of(library: Any, config: Any) -> Any:
    for architecture in getattr(config, "architectures", None) or ():
        if hasattr(library, architecture):
            return getattr(library, architecture)
    for name in CLASSES:
        auto = getattr(library, name, None)
        if auto is not None and type(config) in auto._model_mapping:
            classes = auto._model_mapping[type(config)]
            return classes[0] if isinstance(classes, (list, tuple)) else classes
    raise TraceError(f"transformers has no model for the config {type(config).__name__}")


def _inputs(
    module: Any, config: Any, example: Example, training: bool, making: Making
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """By name; with labels where the model has a loss."""
    takes = inspect.signature(module.forward).parameters
    batch = example.samples or BATCH
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    notes: list[str] = []
    inputs: dict[str, Any] = {}

    words = _value_of(text, "vocab_size") or 2
    main = getattr(module, "main_input_name", "input_ids")
    if main == "pixel_values" or ("pixel_values" in takes and "return_loss" in takes):
        side, stated = example.image, _image_of(config)
        if side is None:
            side = stated or IMAGE
            notes += [] if stated else [f"images of {side} x {side} pixels were assumed; --image says another size"]
        inputs["pixel_values"] = making.numbers(batch, _value_of(config, "num_channels") or 3, side, side)
    if main == "input_features":
        steps = 2 * (_value_of(config, "max_source_positions") or 1500)
        inputs[main] = making.numbers(batch, _value_of(config, "num_mel_bins") or 80, steps)
    if main == "input_values":
        inputs[main] = making.numbers(batch, example.sequence or 16000)
    tokens = example.sequence
    if tokens is None:
        most = _value_of(text, "max_position_embeddings") or _value_of(text, "n_positions") or SEQUENCE
        tokens = min(SEQUENCE, most)
    has_text = "input_ids" in takes and (main == "input_ids" or "return_loss" in takes)
    if has_text:
        inputs["input_ids"] = making.choices(words, batch, tokens)
    if (has_text or main == "input_features") and example.sequence is None:
        notes.append(f"{tokens} tokens a sample were assumed; --sequence says another number")
    if "return_loss" in takes and "pixel_values" in inputs and has_text:
        inputs["return_loss"] = True
    elif "labels" in takes and training:
        kind = type(module).__name__
        per_sample = "Classification" in kind and "Token" not in kind
        below = (_value_of(config, "num_labels") or 2) if "Classification" in kind else words
        inputs["labels"] = making.choices(below, *((batch,) if per_sample else (batch, tokens)))
    if "start_positions" in takes and training:
        inputs |= {end: making.choices(tokens, batch) for end in ("start_positions", "end_positions")}
    return inputs, tuple(notes)


def _image_of(config: Any) -> int | None:
    size = _value_of(config, "image_size") or _value_of(getattr(config, "vision_config", None), "image_size")
    return size if isinstance(size, int) else size[0] if isinstance(size, (list, tuple)) else None


def _value_of(config: Any, name: str) -> Any:
    return getattr(config, name, None)
