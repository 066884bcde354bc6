"""Lists of prompts, and the tokens that begin a text by a server's own tokenizer."""

from collections.abc import Sequence
from typing import Any

import pytest

from emend.agents.local.prefixes import Encoded
from emend.agents.served import lists
from emend.agents.served.lists import ListScorer
from emend.agents.served.tokens import server_encoder

ROW = Encoded((7, 8, 9, 10, 11), 1, 0)


@pytest.mark.parametrize(("gather", "tokens"), [(4, 10_000), (100, 4 * len(ROW.ids))])
def test_every_list_is_as_full_as_the_first(gather, tokens, monkeypatch):
    monkeypatch.setattr(lists, "LIST_TOKENS", tokens)
    sizes = []

    def send(rows: Sequence[Encoded]) -> list[list[float]]:
        sizes.append(len(rows))
        return [[-1.0] * (len(row.ids) - row.start) for row in rows]

    scorer = ListScorer(send, gather, apart=False)
    assert scorer._run("score", [[ROW]] * 12) == [[[-1.0] * 4]] * 12
    assert sizes == [4, 4, 4]
    scorer.close()


@pytest.mark.parametrize(
    ("special", "lead"), [([1, 7, 8], (1,)), ([1, 7, 8, 2], (1,)), ([7, 8], ()), ([7, 8, 2], ()), ([], ())]
)
def test_the_begin_token_is_what_a_server_puts_before_a_text(special, lead):
    def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": special if body["add_special_tokens"] else [7, 8]}

    first = server_encoder(post, "any", None).special
    assert first == (lead, lead[0] if lead else None)
