"""What attention at one token reads and holds of the tokens before it."""

from __future__ import annotations

import pytest

from explorer.sweeps.inference.decoder import Decoder, graph_holding
from explorer.sweeps.inference.kv_cache import Latent, attention_calls, cached_elements
from solvers.errors import InvalidProblem, TraceError
from solvers.problem.graph import CACHED_ATTENTION

CONTEXT = 64


def attention(decoder, degree=1):
    phases = decoder.at(degree)
    graph = phases.decode.graph
    at = next(i for i, one in enumerate(graph.operators) if one.op_type == CACHED_ATTENTION)
    return graph.operators[at], phases.cache[at], phases


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("model", "layers", "heads", "key_heads", "width"),
    [("gpt-small", 4, 4, 4, 8), ("llama-small", 4, 4, 2, 8), ("moe-small", 2, 4, 4, 8)],
)
@pytest.mark.parametrize("degree", [1, 2])
def test_a_cache_has_keys_and_values_of_all_tokens_before_heads_are_repeated(
    model, layers, heads, key_heads, width, degree
):
    one, held, phases = attention(Decoder(model, 8, CONTEXT, dtype="bf16"), degree)
    assert held * degree == 2 * key_heads * width * CONTEXT * 2
    assert phases.cache_bytes == layers * held == sum(phases.prefill_cache)
    assert one.flops.per_sample * degree == 2 * heads * CONTEXT * 2 * width, "two products: scores, and values"
    token = 4 * heads * width * 2 / degree  # its query, key and value, repeated, and what comes out
    assert one.moved_bytes.per_sample == held + token
    assert not one.causal, "the one query sees the whole cache"


@pytest.mark.slow
def test_the_cache_of_llama_8b_at_8192_tokens_is_one_gibibyte():
    one, _, phases = attention(Decoder("llama", 2048, 8192, dtype="bf16"))
    assert phases.cache_bytes == 32 * 2 * 8 * 128 * 8192 * 2 == 2**30
    assert one.flops.per_sample == 2 * 32 * 8192 * (128 + 128)


def test_latent_attention_keeps_one_vector_a_token_at_every_member():
    latent = Latent.parse("16+4")
    for degree in (1, 2):
        one, held, _ = attention(Decoder("llama-small", 8, CONTEXT, dtype="bf16", latent=latent), degree)
        assert held == 20 * CONTEXT * 2
        assert one.flops.per_sample * degree == 2 * 4 * CONTEXT * (20 + 16)


def test_the_cache_grows_with_the_context_and_the_sequences():
    short, long = (Decoder("gpt-small", 8, tokens).at(1) for tokens in (32, 64))
    assert long.cache_bytes == 2 * short.cache_bytes
    graph = graph_holding(long.decode.graph, long.cache, 3)
    held = [o.buffer_bytes for o in graph.operators if o.op_type == CACHED_ATTENTION]
    assert sum(held) == 3 * long.cache_bytes


@pytest.mark.slow
def test_an_operator_with_a_cache_is_in_both_graphs():
    phases = Decoder("llama-small", 8, CONTEXT).at(2)
    for workload, cache in ((phases.prefill, phases.prefill_cache), (phases.decode, phases.cache)):
        named = {o.name for o, nbytes in zip(workload.graph.operators, cache, strict=True) if nbytes}
        assert named == {f"blocks.{i}.attn/scaled_dot_product_attention" for i in range(4)}


def test_keys_of_grouped_queries_are_detected_behind_what_repeats_them():
    decoder = Decoder("llama-small", 8, CONTEXT)
    decoder.at(1)
    captured = decoder._at(1)[0]
    assert {cached_elements(captured, at) for at in attention_calls(captured)} == {(16, 16)}


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("bert-small", "is not causal"),
        ("gnmt-small", "no scaled_dot_product_attention"),
        ("gpt-small,sequence=8", "leave out --sequence"),
        ("gpt-small,tensor-parallel=2", "leave out --tensor-parallel"),
        ("model.pt2", "one length of its sequences"),
        ("graph.json", "one length of its sequences"),
    ],
)
def test_what_is_no_decoder_is_refused_with_what_to_do(model, message):
    with pytest.raises(InvalidProblem, match=message) as caught:
        Decoder(model, 8, CONTEXT).at(1)
    assert "\n" not in str(caught.value)


def test_a_model_without_tokens_is_refused():
    with pytest.raises(TraceError, match="resnet50-small: no input holds tokens"):
        Decoder("resnet50-small", 8, CONTEXT).at(1)


@pytest.mark.parametrize(
    ("prompt", "context", "message"), [(1, 8, "--prompt"), (8, 4, "--context"), (8, 2**25, "16,7")]
)
def test_lengths_that_make_no_sense_are_refused(prompt, context, message):
    with pytest.raises(InvalidProblem, match=message):
        Decoder("gpt-small", prompt, context)


@pytest.mark.parametrize("written", ["576", "512+", "0+64", "a+b", "512+64+1"])
def test_a_latent_cache_is_written_as_two_numbers(written):
    with pytest.raises(InvalidProblem, match=r"latent|RANK"):
        Latent.parse(written)
