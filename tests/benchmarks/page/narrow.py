"""A model that every tool opens: the demo GPT with its blocks, but narrow: 737 nodes of an exported program in 5 MB.

``python -m tests.benchmarks.page.narrow FILE.pt2``
"""

import sys

import torch

from demo_models.gpt import GPTSize, build

BLOCKS = 24

if __name__ == "__main__":
    model, example = build(GPTSize(blocks=BLOCKS, width=64, heads=4, vocabulary=512, context=64, batch=4))
    torch.export.save(torch.export.export(model, example), sys.argv[1])
