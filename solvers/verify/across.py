"""Tensors that are divided along two axes: what changes the division among inner groups, seen by their members.

A member has a digit of a dimension of what its inner group has, and exchanges with its counterparts in the other
groups. An exchange among these leaves every entry with the same digit, or it is none that a member can make alone: the
digit is of a dimension that stays as it is, or of the part of it that is scattered, or gathered, as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from solvers.problem.collectives import WHOLE, DividedTensor
from solvers.verify.placements import Digit, Shape, digit_of


def held(tensor: DividedTensor, members: int, load: float) -> Shape:
    """The shape of what one of so many members has of a tensor; of rows by expert, the one with the most, by its
    ``load`` over the mean."""
    digit = digit_of(tensor.placement, tensor.shape, members)
    if digit is None:
        return tensor.shape
    if digit.slots:
        return (*tensor.shape[: digit.dim], digit.slots, *tensor.shape[digit.dim + 1 :])
    more = load if digit.experts else 1.0
    return tuple(
        math.ceil(length * more / members) if dim == digit.dim else length for dim, length in enumerate(tensor.shape)
    )


def carried(
    before: DividedTensor, after: DividedTensor, groups: int, load: float, placement: str, members: int
) -> list[str]:
    """The placements over an inner group that an exchange among ``groups`` of them may make of one.

    before, after: the tensor over the inner groups. load: of experts. placement: of what one of them has, over its
    members.
    """
    read, made = held(before, groups, load), held(after, groups, load)
    digit = digit_of(placement, read, members)
    if digit is None:
        return [placement] if placement == WHOLE else []
    if digit.experts or digit.slots:
        return []
    pieces = {
        each.dim: each.outer
        for each in (digit_of(one.placement, one.shape, groups) for one in (before, after))
        if each is not None and not each.experts
    }
    digits = _digits(digit, read[digit.dim], made[digit.dim], pieces.get(digit.dim, 1), groups, members)
    return [str(each) for each in digits if made[each.dim] % (each.outer * members) == 0]


def _digits(digit: Digit, read: int, made: int, pieces: int, groups: int, members: int) -> Iterator[Digit]:
    """Of a dimension of pieces x groups x rest at one side, and of pieces x rest at the other."""
    if read == made:
        yield digit
        return
    if pieces % (digit.outer * members) == 0:  # a digit of the pieces, which stay where they are
        yield digit
    if read == made * groups and digit.outer % (pieces * groups) == 0:
        yield digit._replace(outer=digit.outer // groups)
    if made == read * groups and digit.outer % pieces == 0:
        yield digit._replace(outer=digit.outer * groups)
