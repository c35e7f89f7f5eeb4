"""Train a small language model from a plan, on text that is made here.

    placement-explorer plan docs/examples/train_language_model.py:build --devices 2 --mini-batch 32 \
        --micro-batches 4 --planner equal -o two.json
    torchrun --nproc-per-node 2 docs/examples/train_language_model.py --plan two.json

and in one process, with a plan for --devices 1 in one.json:

    python docs/examples/train_language_model.py --plan one.json

Both print the same losses to rounding, dropout included: its masks belong to the seed, the operator and the sample.
--save FOLDER keeps the training at its end, --resume FOLDER goes on from there with this plan or the other one.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explorer
from solvers.errors import PlacementError

LETTERS = "abcdefghijklmnopqrstuvwxyz .\n"
SUBJECTS = ("the cat", "a small dog", "the old man", "my sister", "every bird")
VERBS = ("sees", "finds", "likes", "carries", "waits for")
OBJECTS = ("a red ball", "the river", "some bread", "an empty house", "the morning")
CONTEXT, WIDTH, HEADS, BLOCKS, DROPOUT = 32, 64, 4, 4, 0.1
EXAMPLE_BATCH = 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        batch, letters, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, letters, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.proj(seen.transpose(1, 2).reshape(batch, letters, WIDTH)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class LanguageModel(nn.Module):
    """Letters [batch, context] -> scores of the next one [batch, context, letters]."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS))

    def forward(self, letters: Tensor) -> Tensor:
        x = self.letters(letters) + self.places(torch.arange(letters.shape[1], device=letters.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build() -> tuple[nn.Module, Tensor]:
    """The model and an example of its input: what is planned, and what is trained."""
    return LanguageModel(), torch.zeros(EXAMPLE_BATCH, CONTEXT, dtype=torch.int64)


def mini_batches(samples: int, seed: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
    """(letters, the letters that follow), without end and the same on every rank: from a generator of their own."""
    words = random.Random(seed)
    while True:
        rows = [[LETTERS.index(letter) for letter in _text(words)] for _ in range(samples)]
        text = torch.tensor(rows)
        yield text[:, :-1], text[:, 1:]


def _text(words: random.Random) -> str:
    text = ""
    while len(text) <= CONTEXT:
        text += f"{words.choice(SUBJECTS)} {words.choice(VERBS)} {words.choice(OBJECTS)}.\n"
    return text[: CONTEXT + 1]


def loss(scores: Tensor, following: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), following.flatten())


def warm_up(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plan", required=True, help="a plan.json of docs/examples/train_language_model.py:build")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--samples", type=int, default=32, help="of a mini-batch: the plan's")
    parser.add_argument("--save", help="a new folder for the training as it is at the end")
    parser.add_argument("--resume", help="a folder that --save made")
    args = parser.parse_args()
    try:
        training = explorer.launch(
            args.plan,
            model=build,
            optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
            batches=mini_batches(args.samples),
            loss=loss,
            schedule=warm_up,
            clip=1.0,
            resume=args.resume,
        )
    except PlacementError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with training:
        for step in itertools.islice(training, args.steps):
            if training.rank == 0 and (step.number % 10 == 0 or step.number == 1):
                print(f"step {step.number:4d}   loss {step.loss:.6f}   gradients {step.norm:.4f}", flush=True)
        if args.save:
            training.save(args.save)
        weights = training.full_state_dict()
        if training.rank == 0:  # a plain module again, wherever its parameters were
            model = LanguageModel()
            model.load_state_dict(weights)
    return 0


if __name__ == "__main__":
    sys.exit(main())
