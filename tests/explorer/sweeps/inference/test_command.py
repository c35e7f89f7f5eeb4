"""``decode``: a table, JSON, and the plan of its answer."""

from __future__ import annotations

import json

import pytest

import explorer
from solvers.errors import InvalidProblem
from tests.explorer.cli.command import Command


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


COMMAND = ("decode", "llama-small", "--dtype", "bf16", "--devices", 2, "--device-kind", "H100-80GB", "--prompt", 8,
       "--context", 64)  # fmt: skip


@pytest.mark.slow
def test_the_answer_is_written_checked_and_exported(command: Command, tmp_path):
    path, script = tmp_path / "plan.json", tmp_path / "pipeline.sh"
    ran = command(*COMMAND, "--json", "-o", path)
    printed = ran.json
    assert ran.status == 0
    best = printed["points"][printed["answer"]]
    assert best["tokens_per_s"] == max(point["tokens_per_s"] for point in printed["points"])
    assert printed["kv_cache_bytes_per_sequence"] == 4 * 2 * 2 * 8 * 64 * 2
    assert {(point["tensor_parallel"], point["pipeline_parallel"]) for point in printed["points"]} == {
        (1, 1), (1, 2), (2, 1)
    }  # fmt: skip
    checked = command("check", path)
    assert checked.status == 0
    assert "KV cache" in checked.out
    assert command("simulate", path).status == 0
    assert command("export", path, "--to", "vllm", "-o", script).status == 0
    assert f"VLLM_PP_LAYER_PARTITION={','.join(map(str, best['layers']))}" in script.read_text()


@pytest.mark.slow
def test_a_plan_whose_cache_was_halved_is_refused(command: Command, tmp_path):
    path = tmp_path / "plan.json"
    assert command(*COMMAND, "-o", path).status == 0
    message = path.read_text()
    value = json.loads(message)

    def halve(part):
        if isinstance(part, dict):
            if str(part.get("op_type", "")).startswith("kv_cache"):
                part["buffer_bytes"] /= 2
                return 1
            return sum(map(halve, part.values()))
        return sum(map(halve, part)) if isinstance(part, list) else 0

    assert halve(value) == 4
    path.write_text(json.dumps(value))
    ran = command("check", path)
    assert ran.status != 0
    assert "KV cache" in ran.out + ran.err


@pytest.mark.slow
def test_the_table_marks_the_answer_within_a_limit(command: Command):
    ran = command(*COMMAND, "--time-per-token", "1s")
    assert ran.status == 0
    assert "KV cache of a sequence 16 KiB" in ran.out
    assert any(line.startswith("*") for line in ran.out.splitlines())
    ran = command(*COMMAND, "--time-per-token", "1ns")
    assert ran.status == 3
    assert "none within 1 ns a token; the least is" in ran.out


def test_where_nothing_fits_the_reason_says_what_would_have_to(command: Command):
    ran = command(*COMMAND, "--memory", "2MiB", "--context", 65536)
    assert ran.status == 3
    assert "nothing fits" in ran.out
    assert "KV cache" in ran.out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--prompt", 1), "--prompt must be from 2"),
        (("--context", 4), "--context is all tokens"),
        (("--latent", "576"), "RANK+ROTARY"),
        (("--time-per-token", "0"), "more than 0"),
        (("--time-per-token", "soon"), "a time such as"),
    ],
)
def test_what_makes_no_sense_is_one_line(command: Command, more, message):
    ran = command(*COMMAND, *more)
    assert ran.status == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_what_is_no_decoder_is_one_line(command: Command):
    ran = command("decode", "bert-small", "--prompt", 8)
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "--inference" in ran.err


def test_python_gives_the_same():
    decoding = explorer.decode("llama-small", 2, device_kind="H100-80GB", dtype="bf16", prompt=8, context=64)
    best = decoding.best()
    assert best is decoding.front[-1]
    assert best.result.plan is best.plan
    with pytest.raises(InvalidProblem, match="context"):
        explorer.decode("llama-small", 2, prompt=8, context=4)
