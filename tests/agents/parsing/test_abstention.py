"""Whether a reply abstains: in several languages, and not where it gives a value before or after."""

import pytest

from emend.agents.parsing.abstention import abstains

QUESTION = "Who designed Pell Lock in Norway?"
ABSTAINING = [
    "I don't know.",
    "I don’t have enough information to answer that.",
    "Sorry, I don't know.",
    "I'm not sure.",
    "Unknown.",
    "N/A",
    "The designer is unknown.",
    "It is not stated in the document who designed Pell Lock.",
    "Unfortunately, the document does not specify this.",
    "It cannot be determined from the text.",
    "There is no information about the designer.",
    "Nobody knows; the passage never states it.",
    "The document does not name the designer; it only says that the lock was opened in 1874.",
    "The text gives no information on the designer. It only mentions Ana Rojo as the keeper.",
    "I haven't a clue.",
    "The passage is silent on this.",
    "Hard to say from this.",
    "There's nothing about that in the document.",
    "Sorry, but that information is not in the document.",
    "No name is provided.",
    "It's unclear who designed Pell Lock.",
    "Das weiß ich nicht.",
    "Nicht im Text erwähnt.",
    "Dazu steht nichts im Dokument.",
    "Im Dokument nicht angegeben.",
    "Aus dem Text geht das nicht hervor.",
    "Je ne sais pas.",
    "Ce n'est pas précisé dans le document.",
    "Le texte n'en parle pas.",
    "No lo sé.",
    "El texto no lo dice.",
    "El documento no menciona quién la diseñó.",
    "抱歉，无法确定。",
    "文中未提及。",
    "分かりません。",
    "文書には記載されていません。",
]
ANSWERING = [
    "Ana Rojo",
    "yellow",
    "No.",
    "",
    "Pell Lock was designed by Ana Rojo.",
    "It is not named after its designer.",
    "She does not know him.",
    "The lock is well known.",
    "I don't know, but it was probably Ana Rojo.",
    "I'm not sure, Ana Rojo",
    "I do not know for certain; my guess is Luis Vera.",
    "I don't know. Perhaps an engineer from the town.",
    "It is unknown, maybe 1902",
    "I don't know, 1902",
    "Ana Rojo, though the document does not say so.",
    "The document does not say. It was Ana Rojo.",
    "It opened in 1902, I don't know the day.",
    "The clinic is silent at night.",
    "About 40, although not stated exactly",
    "Ana Rojo (not confirmed)",
    "Das weiß ich nicht, aber vermutlich Ana Rojo.",
    "Je ne sais pas, peut-être Ana Rojo.",
    "No lo sé, creo que Ana Rojo.",
    "我不知道，可能是安娜。",
    "分かりません。たぶんアナです。",
]


@pytest.mark.parametrize("reply", ABSTAINING)
def test_a_reply_abstains_that_says_in_any_language_that_nothing_is_known_or_stated(reply: str):
    assert abstains(reply, QUESTION)


@pytest.mark.parametrize("reply", ANSWERING)
def test_a_reply_that_gives_a_value_does_not_abstain_whatever_it_says_beside_it(reply: str):
    assert not abstains(reply, QUESTION)


def test_names_of_the_question_are_no_value():
    reply = "I do not know. The designer of Pell Lock in Norway."
    assert abstains(reply, QUESTION) and not abstains(reply, "Who was it?")
