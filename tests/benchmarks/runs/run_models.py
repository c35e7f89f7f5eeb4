"""Demonstration models of a size that a CPU trains in a fraction of a second, and whose operators take longer
than it takes to call them: ``tests.benchmarks.runs.run_models:gpt``."""

from __future__ import annotations

from demo_models import gpt as gpt_model
from demo_models import multimodal as multimodal_model
from demo_models import rnnlm as rnnlm_model


def gpt():  # type: ignore[no-untyped-def]
    """Four blocks of width 256, 128 tokens."""
    return gpt_model.build(gpt_model.GPTSize(blocks=4, width=256, heads=4, vocabulary=1024, context=128, batch=4))


def multimodal():  # type: ignore[no-untyped-def]
    """Four branches of two layers of width 192, 64 positions."""
    return multimodal_model.build(
        multimodal_model.MultimodalSize(branches=4, layers=2, width=192, heads=4, positions=64, classes=10, batch=4)
    )


def rnnlm():  # type: ignore[no-untyped-def]
    """Two layers of width 512 unrolled over ten steps, for plans of single operators."""
    return rnnlm_model.build(
        rnnlm_model.RNNLMSize(layers=2, width=512, vocabulary=2000, steps=10, dropout=0.0, batch=8)
    )
