"""Which messages have arrived, as others tell."""

from __future__ import annotations

from explorer.runner.engine.empty_segments import Load, script_of
from explorer.runner.scripts.answers import answers
from explorer.runner.scripts.script import Channel, Do, Piece, Script, Segment, parse_step


def script(*steps: str) -> Script:
    """Segment 0 on device 5 hands a tensor of three micro-batches to segment 1 on device 7."""
    segments = (Segment((0,), (5,), 1, (0,)), Segment((1,), (7,), 1, (1,)))
    channel = Channel(0, 5, 7, (1,), (0,), (True,), tuple(Piece(m, m, m, 1) for m in range(3)), (1,))
    return Script(segments, (channel,), (5, 7), tuple(tuple(map(parse_step, s.split())) for s in steps), 3, True)


ONE_F_ONE_B = script(
    "0F0 0SEND0 0F1 0SEND1 0RECV_GRADIENT0 0B0 0F2 0SEND2 0RECV_GRADIENT1 0B1 0RECV_GRADIENT2 0B2",
    "0RECV0 1F0 1B0 0SEND_GRADIENT0 0RECV1 1F1 1B1 0SEND_GRADIENT1 0RECV2 1F2 1B2 0SEND_GRADIENT2",
)


def test_a_gradient_tells_that_its_activation_came_and_a_later_activation_that_a_gradient_did() -> None:
    assert answers(ONE_F_ONE_B, 0) == {(0, m, True): ((0, m, False),) for m in range(3)}
    assert answers(ONE_F_ONE_B, 1) == {(0, 0, False): (), (0, 1, False): (), (0, 2, False): ((0, 0, True),)}


def test_what_was_only_requested_has_not_come() -> None:
    early = script(
        "0F0 0SEND0 0F1 0SEND1 0F2 0SEND2 0RECV_GRADIENT0 0B0 0RECV_GRADIENT1 0B1 0RECV_GRADIENT2 0B2",
        "0RECV0 0RECV1 0RECV2 1F0 1B0 0SEND_GRADIENT0 1F1 1F2 1B1 0SEND_GRADIENT1 1B2 0SEND_GRADIENT2",
    )
    shown = answers(early, 0)
    assert shown[0, 0, True] == ((0, 0, False),)
    assert shown[0, 1, True] == ((0, 1, False), (0, 2, False))
    assert shown[0, 2, True] == ()


def test_where_nothing_comes_back_nothing_is_reported() -> None:
    assert answers(script_of(Load(across=True, training=False, micro_batches=4)), 0) == {}


def test_all_that_is_reported_was_sent_and_is_reported_once() -> None:
    sent = [
        {(s.index, s.number, s.do is Do.SEND_GRADIENT) for s in steps if s.do in (Do.SEND, Do.SEND_GRADIENT)}
        for steps in ONE_F_ONE_B.steps
    ]
    for rank, own in enumerate(sent):
        shown = answers(ONE_F_ONE_B, rank)
        assert set(shown) == sent[1 - rank]
        known = [message for messages in shown.values() for message in messages]
        assert len(known) == len(set(known))
        assert set(known) <= own
