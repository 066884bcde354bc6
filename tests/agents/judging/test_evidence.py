"""An acceptance is borne out by words that stand in the reply and give a specific of the gold answer."""

import pytest

from emend.agents.judging.evidence import EMPTY_QUOTE, NOT_QUOTED, VAGUE, Compared, find_doubt, standing_pieces

REPLY = "It has been led by “Halvard Brenn” of Bergen since 2021."
LEADER = Compared("Who leads the museum?", ("Halvard Brenn", "Brenn"), REPLY)


@pytest.mark.parametrize(
    ("quote", "doubt"),
    [
        ("", ""),
        ("Halvard Brenn", ""),
        ('led by "halvard brenn" of', ""),
        ("since 2021 ... Halvard Brenn", ""),
        ("Pia Skov … Halvard Brenn", ""),
        ("Brenn, Halvard", ""),
        ("Pia Skov", NOT_QUOTED),
        ("none", NOT_QUOTED),
        ("since 2021", EMPTY_QUOTE),
    ],
)
def test_a_quotation_must_stand_in_the_reply_and_carry_a_specific(quote, doubt):
    assert find_doubt(LEADER, quote) == doubt


def test_a_vague_reply_is_doubted_whatever_is_quoted():
    vague = LEADER._replace(reply="Somebody who is known for it")
    for quote in ("", "Halvard Brenn", "Somebody who is known for it"):
        assert find_doubt(vague, quote) == VAGUE


def test_pieces_stand_as_whole_words_in_their_order():
    assert [*standing_pieces("Bergen since ... since Bergen ... alvard", REPLY)] == ["Bergen since"]
