"""What goes where: bundles, pieces of unequal shares, copies, and which tensors have a gradient."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from explorer.runner.scripts.channels import channels_of, gradients_of, routes
from explorer.runner.scripts.script import Channel, Piece, Segment
from solvers.errors import RunError
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from tests.explorer.runner.scripts.random_plans import random_traced
from tests.instances import forward_graph, training_graph


def segment(operators: tuple[int, ...], devices: tuple[int, ...], size: int, stage: int = 0) -> Segment:
    return Segment(operators, devices, size, (stage,))


def ends(channel: Channel) -> tuple[int, int, int, tuple[int, ...], tuple[int, ...]]:
    return channel.source, channel.src_device, channel.dst_device, channel.readers, channel.tensors


NO_GRADIENT: tuple[frozenset[int], ...] = ()
FORK = forward_graph([(0, 1), (0, 2), (0, 3)], 4, nbytes=1.0)


def test_a_tensor_goes_once_to_a_device_that_has_two_readers() -> None:
    segments = [segment((0,), (0,), 2), segment((1,), (1,), 2), segment((2,), (1,), 2), segment((3,), (2,), 2)]
    channels = channels_of(FORK, segments, NO_GRADIENT, 2)
    assert list(map(ends, channels)) == [(0, 0, 1, (1, 2), (0,)), (0, 0, 2, (3,), (0,))]


def test_a_tensor_goes_again_to_a_reader_with_other_micro_batches() -> None:
    segments = [segment((0,), (0,), 2), segment((1,), (1,), 2), segment((2,), (1,), 4), segment((3,), (1,), 2)]
    channels = channels_of(FORK, segments, NO_GRADIENT, 4)
    assert [(c.readers, c.pieces) for c in channels] == [
        ((1, 3), (Piece(0, 0, 0, 2), Piece(1, 1, 2, 2))),
        ((2,), (Piece(0, 0, 0, 2), Piece(1, 0, 2, 2))),
    ]


def test_tensors_with_the_same_readers_travel_together() -> None:
    operators = tuple(Operator(name) for name in "abcd")
    sizes = Amount(0.0, 1.0)
    tensors = (Tensor(0, (2,), sizes), Tensor(1, (2,), sizes), Tensor(1, (2, 3), sizes), Tensor(0, (2,)))
    segments = [segment((0, 1), (0,), 1), segment((2,), (1,), 1), segment((3,), (2,), 1)]
    channels = channels_of(OpGraph(operators, tensors), segments, NO_GRADIENT, 1)
    assert list(map(ends, channels)) == [
        (0, 0, 1, (1,), (0, 1)),
        (0, 0, 1, (1,), (2,)),
        (0, 0, 2, (2,), (2,)),
    ]  # the tensor of 0 bytes goes nowhere


def test_single_operators_send_together_only_what_the_same_operators_make_and_read() -> None:
    operators = tuple(Operator(name) for name in "abc")
    tensors = tuple(Tensor(u, (2,), Amount(0.0, 1.0)) for u in (0, 1, 1))
    segments = [segment((0, 1), (0,), 1), segment((2,), (1,), 1)]
    channels = channels_of(OpGraph(operators, tensors), segments, NO_GRADIENT, 1, by_operator=True)
    assert [channel.tensors for channel in channels] == [(0,), (1, 2)]


def test_replicas_exchange_the_samples_that_both_have() -> None:
    """Two replicas that share micro-batches of 4 send to three that share micro-batches of 6."""
    chain = forward_graph([(0, 1)], 2, nbytes=1.0)
    channels = channels_of(chain, [segment((0,), (0, 1), 4), segment((1,), (2, 3, 1), 6)], NO_GRADIENT, 12)
    assert [(c.src_device, c.dst_device, c.pieces) for c in channels] == [
        (0, 1, (Piece(1, 0, 4, 2),)),
        (0, 2, (Piece(0, 0, 0, 2),)),
        (0, 3, (Piece(2, 1, 8, 2),)),
        (1, 1, (Piece(2, 1, 10, 2),)),
        (1, 2, (Piece(1, 1, 6, 2),)),
        (1, 3, (Piece(0, 0, 2, 2),)),
    ]
    assert [channel.is_local for channel in channels] == [False, False, False, True, False, False]


def test_a_piece_lies_in_one_micro_batch_of_both_ends() -> None:
    chain = forward_graph([(0, 1)], 2, nbytes=1.0)
    (channel,) = channels_of(chain, [segment((0,), (0,), 4), segment((1,), (1,), 6)], NO_GRADIENT, 12)
    assert channel.pieces == (Piece(0, 0, 0, 4), Piece(1, 0, 4, 2), Piece(1, 1, 6, 2), Piece(2, 1, 8, 4))


def test_a_reader_takes_the_copy_that_it_holds_or_the_nearest() -> None:
    graph = forward_graph([(0, 1), (0, 2), (0, 3)], 4, nbytes=1.0)
    graph = replace(graph, operators=(replace(graph.operators[0], replicable=True), *graph.operators[1:]))
    units = [(0, 1), (0, 2), (3,), ()]
    ways = routes(graph, units, [(0,), (1,), (1,), (0,)])
    assert [(r.source, r.reader) for r in ways] == [(1, 2)]
    ways = routes(graph, units, [(0,), (1,), (2,), (0,)])
    assert [(r.source, r.reader) for r in ways] == [(0, 2)]


def test_what_stays_on_its_replicas_is_handed_over_there() -> None:
    chain = forward_graph([(0, 1)], 2, nbytes=1.0)
    channels = channels_of(chain, [segment((0,), (0, 1), 4), segment((1,), (0, 1), 4)], NO_GRADIENT, 4)
    assert [(c.src_device, c.dst_device, c.is_local, c.pieces) for c in channels] == [
        (0, 0, True, (Piece(0, 0, 0, 2),)),
        (1, 1, True, (Piece(0, 0, 2, 2),)),
    ]


def test_replicas_with_other_micro_batches_are_sent_to_like_other_devices() -> None:
    """Samples change replicas, so tensors with other readers elsewhere are other messages here too."""
    operators = tuple(Operator(name) for name in "abc")
    tensors = tuple(Tensor(0, readers, Amount(0.0, 1.0)) for readers in ((1,), (1, 2)))
    segments = [segment((0,), (0, 1), 2), segment((1,), (0, 1), 4), segment((2,), (2,), 2)]
    channels = channels_of(OpGraph(operators, tensors), segments, NO_GRADIENT, 4)
    assert {channel.tensors for channel in channels} == {(0,), (1,)}
    segments[1] = segment((1,), (0, 1), 2)
    channels = channels_of(OpGraph(operators, tensors), segments, NO_GRADIENT, 4)
    assert {channel.tensors for channel in channels if channel.is_local} == {(0, 1)}


def test_gradients_flow_back_from_the_readers_that_send_them() -> None:
    segments = [segment((0,), (0,), 1), segment((1,), (1,), 1), segment((2,), (1,), 1), segment((3,), (2,), 1)]
    channels = channels_of(FORK, segments, (frozenset({2}),), 1)
    assert [(c.dst_device, c.gradient, c.senders) for c in channels] == [(1, (True,), (2,)), (2, (False,), ())]


@pytest.mark.parametrize("seed", range(40))
def test_gradients_by_the_graph_are_those_of_the_trace(seed: int) -> None:
    traced = random_traced(random.Random(seed), 6 + seed % 20)
    operators = traced.graph.operators
    senders = {o.forward_of for o in operators if o.phase is Phase.BACKWARD_INPUT}
    assert gradients_of(traced.graph) == tuple(consumers & senders for consumers in traced.gradients)


def test_a_gradient_of_no_forward_tensor_is_refused() -> None:
    graph = training_graph([(0, 1), (1, 2)], 3, nbytes=1.0)
    wrong = tuple(replace(t, nbytes=Amount(0.0, 2.0)) if t.producer == 5 else t for t in graph.tensors)
    with pytest.raises(RunError, match='"c\'" sends is the gradient of no forward tensor'):
        gradients_of(replace(graph, tensors=wrong))


def test_a_backward_that_reads_the_forward_of_another_operator_is_refused() -> None:
    graph = training_graph([(0, 1)], 2, nbytes=1.0)
    saved = (*graph.tensors, Tensor(0, (3,), Amount(0.0, 1.0)))
    with pytest.raises(RunError, match="reads a tensor of forward operator 'a', not of its own"):
        routes(replace(graph, tensors=saved), [(0,), (1,)], [(0,), (1,)])
