"""A training in a folder, by the names of the model's own tensors, so that another plan can go on from it.

Tensors are kept by torch.distributed.checkpoint; beside them training.json says how far the training was and what is
no tensor. Nothing is unpickled but what describes tensors.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors
from torch.distributed.checkpoint.state_dict_saver import save as save_tensors

from explorer.files import os_words, part_beside, put_in_place, write_file
from explorer.runner.engine.shards import is_shared
from explorer.runner.training.catalogue import Catalogue, Meta, Reader, Writer
from explorer.runner.training.optimizing import Updater
from explorer.runner.training.ranks import one_line
from solvers.errors import RunError
from solvers.formats.json_text import parse_json

FORMAT, VERSION = "placement-explorer/training", 1
FILE = "training.json"
PLAIN = (bool, int, float, str, type(None))
MODEL, STATE = "model/", "optimizer/"
"""What the names of tensors begin with; a state is optimizer/PARAMETER/STATE."""


@dataclass(frozen=True)
class Progress:
    """How far a training is: optimizer steps, mini-batches taken; seed: of its random numbers."""

    steps: int
    mini_batches: int
    seed: int


def save(folder: Path, catalogue: Catalogue, updater: Updater, progress: Progress) -> None:
    """Every rank must call it, with the same new folder, which all of them see. It is written beside and renamed when
    it is whole. Raises RunError on every rank, and then nothing of it is left."""
    ranks, what = catalogue.ranks, f"checkpoint {folder}"
    part = Path(ranks.all_of(ranks.agreed(lambda: _make(folder) if ranks.rank == 0 else "", what))[0])
    try:
        tensors, numbers = ranks.agreed(lambda: _states(catalogue, updater), what)
        plain = ranks.agreed(lambda: _plain(updater), what)
        parts = ranks.all_of((numbers, {name: meta_json(value) for name, value in tensors.items()}, plain))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what torch is about to change inside
            ranks.agreed(lambda: _together(folder, lambda: save_tensors(tensors, storage_writer=Writer(part))))
        content = {
            "format": FORMAT,
            "version": VERSION,
            "steps": progress.steps,
            "mini_batches": progress.mini_batches,
            "seed": progress.seed,
            "tensors": {name: meta for _, metas, _ in parts for name, meta in metas.items()},
            "numbers": {name: value for own_numbers, _, _ in parts for name, value in own_numbers.items()},
            **next((each for _, _, each in parts if each), {}),
        }
        ranks.agreed(lambda: _finish(folder, part, content) if ranks.rank == 0 else None)
    except BaseException:
        if ranks.rank == 0:
            shutil.rmtree(part, ignore_errors=True)
        raise


def _finish(folder: Path, part: Path, content: dict[str, Any]) -> None:
    try:
        write_file(part / FILE, json.dumps(content, allow_nan=False), "saving a checkpoint")
        put_in_place(part, folder)
    except OSError as error:
        raise RunError(_not_saved(folder, error)) from None


def _not_saved(folder: Path, error: OSError) -> str:
    reason = os_words(OSError(error.errno, os.strerror(error.errno or 0)))
    return f"checkpoint {folder}: {reason}; nothing of it was saved, and what was saved before is as it was"


def progress_of(folder: Path) -> Progress:
    """How far the training was that is kept there. Raises RunError."""
    content = _read(folder)
    return Progress(content["steps"], content["mini_batches"], content["seed"])


def load(folder: Path, catalogue: Catalogue, updater: Updater) -> None:
    """Fills this rank's tensors and its optimizer. Every rank must call it. Raises RunError on every rank, before
    anything is changed, if the checkpoint is of another model or optimizer."""
    ranks = catalogue.ranks
    content = ranks.agreed(lambda: _read(folder), f"checkpoint {folder}")
    ranks.agreed(lambda: _check_model(folder, content, catalogue), f"checkpoint {folder}")
    placed, metas = catalogue.placed, catalogue.metas
    wanted = {
        f"{MODEL}{name}": torch.empty(metas[name][0], dtype=tensor.dtype) if placed.is_share(name) else tensor.detach()
        for name, tensor in catalogue.tensors.items()
    }
    states = ranks.agreed(lambda: _rooms(folder, content, updater, metas), f"checkpoint {folder}")
    flat = {f"{STATE}{name}/{key}": room for name, rooms in states.items() for key, room in rooms.items()}
    ranks.agreed(lambda: Reader(folder).read_metadata(), f"checkpoint {folder}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranks.agreed(lambda: _together(folder, lambda: load_tensors({**wanted, **flat}, storage_reader=Reader(folder))))
    member = ranks.rank % placed.members
    with torch.no_grad():
        for name, tensor in catalogue.tensors.items():
            if placed.is_share(name):
                tensor.copy_(placed.share(name, wanted[f"{MODEL}{name}"], member))
    states = {
        name: {
            key: placed.share(name, room, member) if room.shape == metas[name][0] else room
            for key, room in rooms.items()
        }
        for name, rooms in states.items()
    }
    ranks.agreed(lambda: _restore(content, updater, states), f"checkpoint {folder}")


def meta_json(tensor: Tensor) -> list[object]:
    """[dtype, shape]."""
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]


def _together(folder: Path, doing: Callable[[], object]) -> None:
    """What torch.distributed.checkpoint does on all ranks. Raises RunError with the first reason; torch's own error is
    no Exception, and of many lines."""
    try:
        doing()
    except CheckpointException as error:
        first, _ = next(iter(error.failures.values()))
        message = _not_saved(folder, first) if isinstance(first, OSError) else one_line(first, f"checkpoint {folder}")
        raise RunError(message) from error


def _make(folder: Path) -> str:
    """A folder beside, of which ``folder`` is to be made."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"checkpoint {folder}: it is there already; name a new folder")
    try:
        part = part_beside(folder)
        Path(part).mkdir(parents=True)
    except OSError as error:
        raise RunError(f"checkpoint {folder}: {os_words(error)}") from None
    return part


def _states(catalogue: Catalogue, updater: Updater) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(the tensors that this rank saves, whole; the states of its optimizer that are numbers). All ranks call it
    together."""
    tensors = {f"{MODEL}{name}": value for name, value in catalogue.owned.items()}
    numbers: dict[str, Any] = {}
    states_of = {} if updater.optimizer is None else _whole_states(updater.optimizer, updater)
    for name, parameter in updater.parameters.items():
        if not catalogue.is_gathered_here(name):
            continue
        for key, value in states_of.get(parameter, {}).items():
            full = f"{STATE}{name}/{key}"
            if isinstance(value, Tensor):
                value = _whole_state(catalogue, name, parameter, key, value.detach())
            if catalogue.owners[name] != catalogue.ranks.rank:
                continue
            if isinstance(value, Tensor):
                tensors[full] = value
            elif isinstance(value, PLAIN):
                numbers[full] = value
            else:
                raise RunError(f"the optimizer keeps a {type(value).__name__} ({key}), which cannot be saved")
    return tensors, numbers


def _whole_states(optimizer: torch.optim.Optimizer, updater: Updater) -> dict[Tensor, Mapping[str, Any]]:
    """What an optimizer keeps of each parameter that this rank updates, with what other replicas hold of it."""
    states: dict[Tensor, Mapping[str, Any]] = {p: optimizer.state.get(p, {}) for p in updater.parameters.values()}
    for shards in updater.shards:
        states.update(zip(shards.parameters, shards.states(optimizer.state), strict=True))
    return states


def _whole_state(catalogue: Catalogue, name: str, parameter: Tensor, key: str, state: Tensor) -> Tensor:
    """A state of a parameter, put together from the members' where it is divided as that is."""
    if not catalogue.placed.is_share(name) or state.numel() == 1:
        return state
    if state.shape != parameter.shape:
        raise RunError(f"the optimizer keeps {key} of {list(state.shape)} for a share of {name}, which cannot be saved")
    return catalogue.placed.together(name, state)


def _plain(updater: Updater) -> dict[str, Any]:
    """What the optimizer's groups and the schedule have beside tensors; {} where there is no optimizer."""
    if updater.optimizer is None:
        return {}
    groups = [
        {key: _value(value) for key, value in group.items() if key != "params" and not key.startswith("param_names")}
        for group in updater.optimizer.param_groups
    ]
    plain: dict[str, Any] = {"optimizer": type(updater.optimizer).__name__, "groups": groups, "schedule": None}
    if updater.schedule is not None:
        plain["schedule"] = {key: _value(value) for key, value in updater.schedule.state_dict().items()}
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RunError(f"the optimizer's or schedule's settings cannot be saved as plain values: {error}") from None
    return plain


def _value(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.dim() == 0 else value


def _read(folder: Path) -> dict[str, Any]:
    try:
        data = (folder / FILE).read_bytes()
    except OSError as error:
        raise RunError(f"checkpoint {folder}: {FILE}: {os_words(error)}") from None
    value = parse_json(data, str(folder / FILE))
    if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("version") != VERSION:
        raise RunError(f"checkpoint {folder}: {FILE} is no {FORMAT} of version {VERSION}")
    for name in ("steps", "mini_batches", "seed"):
        if isinstance(value.get(name), bool) or not isinstance(value.get(name), int) or value[name] < 0:
            raise RunError(f"checkpoint {folder}: {name}: expected a whole number, found {value.get(name)!r:.50}")
    for name in ("tensors", "numbers"):
        if not isinstance(value.get(name), dict):
            raise RunError(f"checkpoint {folder}: {name}: expected an object")
    return value


def _meta(folder: Path, content: Mapping[str, Any], name: str) -> Meta:
    meta = content["tensors"].get(name)
    try:
        dtype, shape = meta
        kind = getattr(torch, dtype)
        if isinstance(kind, torch.dtype) and all(type(n) is int and n >= 0 for n in shape) and len(shape) < 65:
            return tuple(shape), kind
    except (TypeError, ValueError, AttributeError):
        pass
    raise RunError(f"checkpoint {folder}: {name}: expected [dtype, shape], found {meta!r:.50}")


def _check_model(folder: Path, content: Mapping[str, Any], catalogue: Catalogue) -> None:
    there = {name.removeprefix(MODEL) for name in content["tensors"] if name.startswith(MODEL)}
    for name in sorted(there ^ catalogue.metas.keys()):
        where = "is not in this model" if name in there else "is in this model and not there"
        raise RunError(f"checkpoint {folder}: it is of another model: {name} {where}")
    for name, (shape, dtype) in catalogue.metas.items():
        if (written := _meta(folder, content, f"{MODEL}{name}")) != (shape, dtype):
            raise RunError(
                f"checkpoint {folder}: it is of another model: {name} is {list(written[0])} {written[1]} there and"
                f" {list(shape)} {dtype} here"
            )


def _rooms(
    folder: Path, content: Mapping[str, Any], updater: Updater, metas: Mapping[str, Meta]
) -> dict[str, dict[str, Tensor]]:
    """Empty tensors for the states of this rank's parameters, whole, by name and state."""
    optimizer = updater.optimizer
    if optimizer is None:
        return {}
    kind, groups, known = content.get("optimizer"), content.get("groups"), len(optimizer.param_groups)
    if kind != type(optimizer).__name__:
        raise RunError(f"checkpoint {folder}: it is of the optimizer {kind!r:.50}, here is {type(optimizer).__name__}")
    if not isinstance(groups, list) or len(groups) != known or not all(isinstance(group, dict) for group in groups):
        raise RunError(
            f"checkpoint {folder}: its optimizer has another number of groups than the {known} here; make them by a"
            " rule that is the same on every rank"
        )
    if isinstance(content.get("schedule"), dict) != (updater.schedule is not None):
        there, here = ("no", "a") if updater.schedule is not None else ("a", "no")
        raise RunError(f"checkpoint {folder}: it is of {there} schedule, and here is {here} schedule")
    rooms: dict[str, dict[str, Tensor]] = {}
    for full in content["tensors"]:
        name, _, key = full.removeprefix(STATE).rpartition("/")
        if full.startswith(STATE) and name in updater.parameters:
            shape, dtype = _meta(folder, content, full)
            if math.prod(shape) > 1 and math.prod(shape) > 2 * math.prod(metas[name][0]):
                raise RunError(f"checkpoint {folder}: {full} is larger than its parameter: {list(shape)}")
            rooms.setdefault(name, {})[key] = torch.empty(shape, dtype=dtype)
    return rooms


def _restore(content: Mapping[str, Any], updater: Updater, states: dict[str, dict[str, Tensor]]) -> None:
    optimizer = updater.optimizer
    if optimizer is None:
        return
    known: dict[str, dict[str, Any]] = {name: dict(rooms) for name, rooms in states.items()}
    for full, value in content["numbers"].items():
        name, _, key = full.removeprefix(STATE).rpartition("/")
        if name in updater.parameters and isinstance(value, PLAIN):
            known.setdefault(name, {})[key] = value
    fresh = optimizer.state_dict()
    restored = {id(parameter): known.get(name) for name, parameter in updater.parameters.items()}
    for parameter, piece in ((each.parameters[piece.of], piece) for each in updater.shards for piece in each.pieces):
        values = restored[id(parameter)]
        restored[id(piece.value)] = values and {
            key: piece.cut(value).clone() if isinstance(value, Tensor) and is_shared(key, value, parameter) else value
            for key, value in values.items()
        }
    order = [restored[id(p)] for group in optimizer.param_groups for p in group["params"]]
    groups = [
        {key: _like(stored.get(key, value), value) if key != "params" else value for key, value in group.items()}
        for group, stored in zip(fresh["param_groups"], content["groups"], strict=True)
    ]
    optimizer.load_state_dict(
        {"state": {k: values for k, values in enumerate(order) if values is not None}, "param_groups": groups}
    )
    if updater.schedule is not None:
        updater.schedule.load_state_dict(_like(content["schedule"], updater.schedule.state_dict()))


def _like(value: Any, known: Any) -> Any:
    """What JSON made of a value, as Python has it: tuples, and numbers as keys. known: one of the same kind."""
    if isinstance(known, dict) and isinstance(value, dict):
        return type(known)({key: _like(value.get(str(key), own), own) for key, own in known.items()})
    if isinstance(known, (list, tuple)) and isinstance(value, list):
        own = list(known) if len(known) == len(value) else [None] * len(value)
        return type(known)([_like(a, b) for a, b in zip(value, own, strict=True)])
    return value
