"""Points of a decoder's inference as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.terminal.command import print_table
from explorer.words import text

if TYPE_CHECKING:
    from explorer.sweeps.inference.decoder import Decoder
    from explorer.sweeps.inference.points import Point
    from explorer.sweeps.inference.search import Served

HEADS = ["", "replicas", "TP", "PP", "sequences", "time per token", "tokens/s", "tokens/s a device", "first token",
         "layers", "peak memory", "KV cache"]  # fmt: skip
LEFT = (0, 9)
"""Columns of words."""
SHOWN_LAYERS = 16


def print_served(decoder: Decoder, served: Served, best: Point | None, limit_s: float | None) -> None:
    """The Pareto front, by time per token, with the answer marked; then what has no point, and why."""
    front = list(served.front)
    print(
        f"{decoder.model}: prompts of {decoder.prompt:,} tokens, decoded to {decoder.context:,}; KV cache of a sequence"
        f" {text.nbytes(served.cache_bytes)}"
    )
    print(f"{text.plural(len(served.points), 'point')} fit, {len(front)} on the Pareto front")
    if front:
        print()
        shown = front if best is None or best in front else sorted([*front, best], key=lambda one: one.token_s)
        right = frozenset(range(len(HEADS))) - frozenset(LEFT)
        print_table([HEADS, *(_row(point, best) for point in shown)], right=right)
    print()
    if best is not None:
        within = "" if limit_s is None else f" within {text.seconds(limit_s)} a token"
        print(
            f"answer     the largest throughput{within}, marked *; time per token is that at {decoder.context:,} tokens"
        )
    elif not front:
        print("answer     none: nothing fits")
    else:
        print(
            f"answer     none within {text.seconds(limit_s)} a token; the least is {text.seconds(front[0].token_s)}"
            " (more tensor parallelism, faster devices or a shorter context)"
        )
    for (tensor, pipeline), reason in sorted(served.reasons.items()):
        print(f"none       TP {tensor}, PP {pipeline}: {reason}")
    for note in served.notes:
        print(f"note       {note}")


def _row(point: Point, best: Point | None) -> list[str]:
    return [
        "*" if point is best else "",
        text.count(point.replicas),
        text.count(point.tensor),
        text.count(point.pipeline),
        text.count(point.sequences),
        text.seconds(point.token_s),
        text.rate(point.tokens_per_s).removesuffix(" /s"),
        text.rate(point.tokens_per_s_per_device).removesuffix(" /s"),
        text.seconds(point.first_token_s),
        layers_words(point.layers),
        text.nbytes(max(point.peak_bytes)),
        text.nbytes(max(point.cache_bytes)),
    ]


def layers_words(layers: tuple[int, ...]) -> str:
    """ "9,9,8,6", the first stages where there are many."""
    shown = ",".join(map(str, layers[:SHOWN_LAYERS]))
    return shown if len(layers) <= SHOWN_LAYERS else f"{shown},..."


def served_object(decoder: Decoder, served: Served, best: Point | None, limit_s: float | None) -> dict[str, object]:
    """For --json: every point, which are on the front, and the answer's position."""
    front = {id(point) for point in served.front}
    return {
        "model": decoder.model,
        "prompt_tokens": decoder.prompt,
        "context_tokens": decoder.context,
        "kv_cache_bytes_per_sequence": served.cache_bytes,
        "time_per_token_limit_s": limit_s,
        "answer": None if best is None else served.points.index(best),
        "points": [point_object(point) | {"on_front": id(point) in front} for point in served.points],
        "without_points": [
            {"tensor_parallel": tensor, "pipeline_parallel": pipeline, "reason": reason}
            for (tensor, pipeline), reason in sorted(served.reasons.items())
        ],
        "notes": list(served.notes),
    }


def point_object(point: Point) -> dict[str, object]:
    """One point as JSON."""
    return {
        "replicas": point.replicas,
        "tensor_parallel": point.tensor,
        "pipeline_parallel": point.pipeline,
        "micro_batch": point.micro_batch,
        "sequences": point.sequences,
        "time_per_token_s": point.token_s,
        "time_to_first_token_s": point.first_token_s,
        "tokens_per_s": point.tokens_per_s,
        "tokens_per_s_per_device": point.tokens_per_s_per_device,
        "layers": list(point.layers),
        "peak_memory_bytes": list(point.peak_bytes),
        "kv_cache_bytes": list(point.cache_bytes),
        "status": point.result.status.value,
    }
