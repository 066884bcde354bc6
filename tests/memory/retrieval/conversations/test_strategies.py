"""What the strategies over conversations find, on a conversation written for them."""

from datetime import date

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.conversations.conversation import standardised, statement_prior
from emend.memory.retrieval.conversations.dates import DateIndex, query_dates
from emend.memory.retrieval.conversations.instructions import asks_for_help, standing_bonus
from emend.memory.retrieval.conversations.newest import asks_for_present
from emend.memory.retrieval.conversations.pieces import pieces_of
from emend.memory.retrieval.conversations.sessions import session_titles
from emend.memory.retrieval.conversations.speaker import SpeakerIndex
from emend.memory.retrieval.conversations.topic import topic_of
from emend.memory.retrieval.conversations.turns import TurnOrder, speaker_of
from emend.memory.retrieval.exact import ExactCorpus

TURNS = {
    "c:D1:1": ("2023-05-08", "Ida: Which pet would you like?"),
    "c:D1:2": ("2023-05-08", "Tom: A grey one with long ears, I think."),
    "c:D1:9": ("2023-05-08", "Ida: I joined the rowing club in Brask, it has 40 members."),
    "c:D1:10": ("2023-05-08", "Tom: Great, rowing is healthy."),
    "c:D2:1": ("2023-06-03", "Tom: I met Mira Tolvane at the harbour."),
    "c:D2:2": ("2023-06-03", "Ida: Mira Tolvane teaches the violin in Halden."),
    "c:D3:1": ("2023-07-01", "Ida: Our rowing club in Brask has grown to 55 members now."),
}


def entries() -> list[Entry]:
    made = [Entry(id=f"{name}.000", edit_id=name, text=text, time=day) for name, (day, text) in TURNS.items()]
    return sorted(made, key=lambda entry: entry.id)


def found(strategy: str, query: str, k: int = 3) -> list[str]:
    retriever = load_retriever(strategy)(ExactCorpus.of(entries(), LexicalEmbedding()))
    return [hit.entry.edit_id for hit in retriever.search(query, k)]


def chat(*texts: str) -> list[Entry]:
    return [Entry(id=f"c:{n}", edit_id=f"c:{n}", text=text, time="2024-01-01") for n, text in enumerate(texts)]


def ranked(texts: list[Entry], query: str) -> list[str]:
    retriever = load_retriever("conversation")(ExactCorpus.of(texts, LexicalEmbedding()))
    return [hit.entry.id for hit in retriever.search(query, len(texts))]


def test_turns_are_ordered_by_time_and_the_numbers_of_their_ids():
    turns = TurnOrder(entries())
    assert [turns.entries[position].edit_id for position in turns.order] == list(TURNS)
    assert speaker_of("Ida: hello") == "Ida" and speaker_of("at 10:30 we met") == ""
    after = dict(zip((entry.edit_id for entry in turns.entries), turns.neighbours(1), strict=True))
    assert turns.entries[after["c:D1:1"] or 0].edit_id == "c:D1:2"
    assert after["c:D1:10"] is None, "the next turn is of another session"


def test_texts_without_time_and_number_have_no_neighbours():
    lone = [Entry(id=f"{n}", edit_id=f"hash{n}", text=text) for n, text in enumerate(["one", "two"])]
    assert TurnOrder(lone).neighbours(1) == [None, None]


def test_an_assistants_replies_are_no_neighbours():
    texts = chat("user: I live in Brask.", "assistant: Brask is nice.")
    assert TurnOrder(texts).neighbours(1) == [None, None]


def test_a_window_finds_the_answer_by_the_question_before_it():
    assert "c:D1:2" not in found("bm25(tokens=stems)", "Which pet?")
    assert "c:D1:2" in found("window>bm25(tokens=stems)", "Which pet?")
    assert "c:D1:2" in found("window>dense", "Which pet would you like?", 2)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What did Ida do the week before 9 June 2023?", ["9 june 2023", "2 june 2023"]),
        ("Where was she last May?", ["may 2023"]),
        ("What happened in March 2024?", ["march 2024"]),
        ("What may she like?", []),
        ("What did he say two weeks ago?", ["17 february 2024"]),
        ("What was new in 2022?", ["2022"]),
        ("On August 4th, 2023, who called?", ["4 august 2023"]),
        ("On 99 June 2023?", ["99 june 2023"]),
    ],
)
def test_dates_are_read_from_a_query(query: str, words: list[str]):
    assert query_dates(query, date(2024, 3, 2)) == words


def test_dates_find_the_turns_of_a_day():
    assert set(found("dates", "What happened on 3 June 2023?", 2)) == {"c:D2:1", "c:D2:2"}
    assert "c:D2:1" in found("dates>default", "Whom did Tom meet on 3 June 2023?", 2)


def test_sessions_are_found_as_wholes_and_by_title():
    assert found("session(count=1)", "harbour violin", 2)[0].startswith("c:D2")
    assert found("session(titled=true, count=1)", "Tolvane in June", 1)[0].startswith("c:D2")
    assert "rowing" in session_titles(["rowing rowing club", "violin club"])[0].split()[0]


def test_the_speaker_who_is_named_comes_earlier():
    assert found("bm25(tokens=stems)>speaker(bonus=9)", "What does Tom say of rowing?")[0] == "c:D1:10"


def test_names_in_the_first_hits_become_a_second_query():
    plain = found("bm25(tokens=stems)", "Who was at the harbour?")
    assert "c:D2:2" not in plain
    assert "c:D2:2" in found("bm25(tokens=stems)>bridge(first=1)", "Who was at the harbour?")
    assert "c:D2:2" in found("bm25(tokens=stems)>feedback(first=1)", "Who was at the harbour?")


def test_hits_of_one_session_make_room_for_others():
    assert found("bm25(tokens=stems)>diverse(penalty=9)", "rowing in Brask", 2) == ["c:D3:1", "c:D1:9"] or (
        found("bm25(tokens=stems)>diverse(penalty=9)", "rowing in Brask", 2) == ["c:D1:9", "c:D3:1"]
    )


def test_the_newer_of_two_statements_comes_first_if_the_present_is_asked_for():
    query = "How many members has the rowing club in Brask?"
    for strategy in ("bm25(tokens=stems)>newest", "conversation"):
        order = found(strategy, query, 7)
        assert order.index("c:D3:1") < order.index("c:D1:9")
    assert asks_for_present(query)
    assert not asks_for_present("How many members did the club have?")
    assert not asks_for_present("Can you list the order of the events?")


def test_long_texts_are_found_by_any_piece():
    filler = "Nothing else was said about the weather in the valley. " * 60
    long = Entry(id="long", edit_id="long", text=f"Ida: {filler}The lighthouse keeper collects stamps.")
    other = Entry(id="other", edit_id="other", text="Tom: The keeper of the valley likes weather.")
    retriever = load_retriever("pieces>dense")(ExactCorpus.of([long, other], LexicalEmbedding()))
    assert retriever.search("Which lighthouse keeper collects stamps?", 1)[0].entry == long
    parts = pieces_of(long.text)
    assert len(parts) > 4 and all(part.startswith("Ida: ") for part in parts)
    assert max(len(part.split()) for part in parts) <= 121


def test_standard_scores_of_equal_scores_are_zero_and_statements_come_before_questions():
    assert not standardised(DateIndex(ExactCorpus.of(entries(), LexicalEmbedding())).scores("Who met Mira?")).any()
    prior = dict(zip((entry.edit_id for entry in entries()), statement_prior(entries()), strict=True))
    assert prior["c:D1:9"] > prior["c:D1:1"]


@pytest.mark.parametrize(
    ("request_", "topic"),
    [
        ("Can you list the order in which I brought up aspects of my app? Mention ONLY five items.", "my app?"),
        ("Please summarize how we\u2019ve planned the trip in our conversations.", "how we've planned the trip."),
        ("Where is the boat that we discussed?", "Where is the boat?"),
        ("Which pet would Ida like?", "Which pet would Ida like?"),
        ("List 7.", "List 7."),
        ("", ""),
    ],
)
def test_the_topic_of_a_request_is_what_it_asks_about(request_: str, topic: str):
    assert topic_of(request_) == topic


def test_a_turn_that_repeats_the_words_of_a_request_does_not_come_before_its_topic():
    texts = ["user: Can you give me a comprehensive summary of the law?", "user: I planted beans in my garden."]
    query = "Can you give me a comprehensive summary of how I planted my garden?"
    assert ranked(chat(*texts), query)[0] == "c:1"


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        ("Can you help me plan my garden?", True),
        ("How should I list my jobs?", True),
        ("What are some good tools for writing?", True),
        ("How many beans did I plant?", False),
        ("What did you recommend for my garden?", False),
        ("Have I ever planted beans?", False),
        ("", False),
    ],
)
def test_requests_for_help_are_told_from_questions_about_the_conversation(query: str, asks: bool):
    assert asks_for_help(query) == asks


def test_standing_instructions_are_found_by_requests_that_share_no_word_with_them():
    texts = chat(
        "user: I listed the jobs of my uncle in a letter.",
        "assistant: Always keep a copy of such a letter.",
        "user: Always answer in bullet points.",
        "user: I bought beans.",
        "user: I prefer short replies.",
    )
    assert list(standing_bonus(texts)) == [0, 0, 5, 0, 2]
    assert ranked(texts, "How should I list my jobs?")[:3] == ["c:0", "c:2", "c:4"]
    assert ranked(texts, "Which jobs did I list?").index("c:2") > 2


def test_a_polite_request_is_not_about_what_the_assistant_said():
    index = SpeakerIndex(chat("user: I bought beans.", "assistant: Plant them in May."))
    assert list(index.speaks("Can you help me with my beans?") > 0) == [True, False]
    assert not index.speaks("Which month did you recommend for my beans?").any()


def test_a_message_that_continues_the_previous_one_comes_before_others():
    texts = chat(
        "user: I would like to visit the lighthouse of Brask.",
        "assistant: It opens at nine.",
        "user: And what about Sundays then?",
        "user: And what about garlic then?",
    )
    assert TurnOrder(texts).previous_requests() == [0, 1, 0, 2]
    order = ranked(texts, "When did I ask about the lighthouse of Brask?")
    assert order.index("c:0") < order.index("c:2") < order.index("c:3")
