"""TOML files of torchtitan."""

from __future__ import annotations

import pytest

from explorer.exports.configurations.torchtitan import torchtitan
from solvers.errors import InvalidProblem
from solvers.problem.problem import Pipeline, Precision

FILE = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 2
tensor_parallel_degree = 2
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "full"
[compile]
enable = true
"""


def test_a_file_becomes_a_configuration() -> None:
    configuration = torchtitan(FILE, "f")
    assert (configuration.tensor, configuration.pipeline, configuration.chunks, configuration.data) == (2, 4, 2, 2)
    assert (configuration.schedule, configuration.recompute, configuration.zero) == (Pipeline.INTERLEAVED, "layers", 2)
    assert (configuration.dtype, configuration.precision) == ("bf16", Precision.MIXED)
    assert configuration.settings(None)["devices"] == 16
    assert configuration.settings(16)["mini_batch"] == 16
    assert configuration.micro_batch == 1
    assert configuration.ignored == ("[compile]",)
    assert (configuration.layers, configuration.ends) == (None, (1, 1))


def test_without_pipelines_a_local_batch_is_one_micro_batch() -> None:
    configuration = torchtitan("[training]\nlocal_batch_size = 4\nglobal_batch_size = 64\n", "f")
    assert (configuration.micro_batch, configuration.replicas(8), configuration.samples(8), configuration.zero) == (
        4,
        8,
        64,
        3,
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a =", "not read as TOML"),
        ("a = 1", r"no \[parallelism\] or \[training\]"),
        ("training = 3", r"\[training\] must be a section"),
        ("[parallelism]\npipeline_parallel_degree = true", "must be a whole number"),
        ("[parallelism]\ncontext_parallel_degree = 2\nexpert_parallel_degree = 4", "context 2 and expert 4: a group"),
        ('[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "X"', "'X': only GPipe, 1F1B"),
        ("[parallelism]\nmodule_fqns_per_model_part = [3]", "must be a list of lists of names"),
        ('[training]\ndtype = "int8"', "dtype 'int8': only"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidProblem, match=why):
        torchtitan(text, "f")
