"""A TOML file of torchtitan as a configuration.

Keys: torchtitan 0.2 and 0.3, torchtitan/config (`ParallelismConfig`, `Training`, `ActivationCheckpoint`);
distributed/pipeline_parallel.py: where stages are not listed, layers are divided evenly with the embedding and the
head counted as one layer each. Ranks: pipeline outermost, then replicas, shards, tensor (distributed/parallel_dims.py).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from explorer.exports.configurations.configuration import MOST, Configuration, whole_number
from explorer.exports.launchers.torchtitan import ONE_STAGE, SEVERAL
from solvers.errors import InvalidProblem
from solvers.problem.problem import Pipeline, Precision

SCHEDULES = {name: Pipeline(pipeline) for pipeline, name in [*ONE_STAGE.items(), *SEVERAL.items()]}
"""torch's name -> ours."""
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
OPTIMIZERS = {"AdamW": "adamw", "Adam": "adam"}
IGNORED = ("compile", "float8", "quantize")
"""Sections that change a run's times and are not planned here."""
CHUNKS = 2
"""Stages of a rank in a schedule with several, where the file does not say."""

Table = Mapping[str, object]


def torchtitan(text: str, path: str) -> Configuration:
    """The configuration of a TOML file.

    text: of the file. path: for messages. Raises InvalidProblem, in one line with the key, where it is no TOML, a value
    is of another kind, or asks for what is not planned here.
    """
    try:
        whole = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidProblem(f"{path}: not read as TOML: {error}") from None
    if not {"parallelism", "training"} & whole.keys():
        raise InvalidProblem(f"{path}: no [parallelism] or [training] in it, which torchtitan's files have")
    parallel, training = _section(path, whole, "parallelism"), _section(path, whole, "training")
    pipeline = _number(path, parallel, "pipeline_parallel_degree", 1)
    schedule = _name(path, parallel, "pipeline_parallel_schedule", SCHEDULES, "1F1B") if pipeline > 1 else "1F1B"
    names = _names(path, parallel)
    chunks = CHUNKS if schedule in SEVERAL.values() else 1
    if names:
        if len(names) % pipeline:
            raise InvalidProblem(
                f"{path}: {len(names)} parts of the model for pipeline {pipeline}; it must be a multiple"
            )
        chunks = len(names) // pipeline
    shard, replicate = parallel.get("data_parallel_shard_degree", -1), parallel.get("data_parallel_replicate_degree", 1)
    copies = whole_number(path, "data_parallel_replicate_degree", replicate)
    shards = None if shard == -1 else whole_number(path, "data_parallel_shard_degree", shard)
    local = _number(path, training, "local_batch_size", _number(path, training, "batch_size", 8))
    micro = min(local, _number(path, parallel, "pipeline_parallel_microbatch_size", 1)) if pipeline > 1 else local
    dtype, precision = _dtype(path, training)
    mini_batch = training.get("global_batch_size", -1)
    data = None if shards is None else copies * shards
    less = [_number(path, parallel, f"pipeline_parallel_{end}_stage_less_layers", 1, 0) for end in ("first", "last")]
    return Configuration(
        launcher="torchtitan",
        path=path,
        tensor=_number(path, parallel, "tensor_parallel_degree", 1),
        context=_number(path, parallel, "context_parallel_degree", 1),
        expert=_number(path, parallel, "expert_parallel_degree", 1),
        pipeline=pipeline,
        chunks=chunks,
        data=data,
        micro_batch=micro,
        mini_batch=None if mini_batch == -1 else whole_number(path, "global_batch_size", mini_batch),
        of_replica=local,
        names=names,
        ends=(less[0], less[1]),
        schedule=SCHEDULES[schedule],
        recompute=_recompute(path, whole),
        dtype=dtype,
        precision=precision,
        zero=0 if shards == 1 else 2 if pipeline > 1 else 3,
        optimizer=OPTIMIZERS[_name(path, _section(path, whole, "optimizer"), "name", OPTIMIZERS, "AdamW")],
        sequence_parallel=True,
        ignored=tuple(f"[{name}]" for name in IGNORED if name in whole),
    )


def _section(path: str, whole: Table, name: str) -> Table:
    value = whole.get(name, {})
    if not isinstance(value, dict):
        raise InvalidProblem(f"{path}: [{name}] must be a section, found {str(value)[:40]!r}")
    return value


def _number(path: str, section: Table, key: str, usual: int, least: int = 1) -> int:
    return whole_number(path, key, section[key], least) if key in section else usual


def _name(path: str, section: Table, key: str, known: Mapping[str, object], usual: str) -> str:
    value = section.get(key, usual)
    if value not in known or not isinstance(value, str):
        raise InvalidProblem(f"{path}: {key} {str(value)[:40]!r}: only {', '.join(known)} are planned here")
    return value


def _names(path: str, parallel: Table) -> tuple[tuple[str, ...], ...]:
    parts = parallel.get("module_fqns_per_model_part")
    if parts is None:
        return ()
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST or not all(isinstance(part, list) for part in parts):
        raise InvalidProblem(f"{path}: module_fqns_per_model_part must be a list of lists of names")
    return tuple(tuple(str(name) for name in part) for part in parts)


def _dtype(path: str, training: Table) -> tuple[str, Precision]:
    if DTYPES[_name(path, training, "dtype", DTYPES, "float32")] != "fp32":
        return DTYPES[str(training["dtype"])], Precision.PURE
    dtype = DTYPES[_name(path, training, "mixed_precision_param", DTYPES, "bfloat16")]
    return dtype, Precision.PURE if dtype == "fp32" else Precision.MIXED


def _recompute(path: str, whole: Table) -> str:
    modes = {"none": "none", "full": "layers", "selective": "operators"}
    return modes[_name(path, _section(path, whole, "activation_checkpoint"), "mode", modes, "selective")]
