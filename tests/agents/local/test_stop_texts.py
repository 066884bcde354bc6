import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from emend.agents.local.stop_texts import StopTexts, TokenTexts
from emend.agents.tiny import model_folder

STOPS = ["\n", " ", "e", "Ro", ". ", "京", "�", "Paris", " is a", "\n\n", ""]


class ByteDecoding:
    """A tokenizer of single bytes that cleans up spaces before full stops, as some old ones do."""

    clean_up_tokenization_spaces = True

    def decode(self, ids, skip_special_tokens):
        return bytes(ids).decode("utf-8", "replace").replace(" .", ".")


@pytest.fixture(scope="module", params=["tiny", "gpt2", "llama", "bytes"])
def tokenizer(request, random_folder):
    if request.param == "bytes":
        return ByteDecoding()
    folder = model_folder() if request.param == "tiny" else random_folder(request.param)
    return AutoTokenizer.from_pretrained(folder)


def tokens_of(tokenizer, text):
    if isinstance(tokenizer, ByteDecoding):
        return list(text.encode())
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(0, 250), max_size=60) | st.text("aeRoParis. \n京é�", max_size=60),
    st.lists(st.sampled_from(STOPS), min_size=1, max_size=3),
)
def test_a_stop_text_is_found_at_the_same_token_as_in_the_whole_text(tokenizer, content, stop):
    ids = tokens_of(tokenizer, content) if isinstance(content, str) else content
    texts = TokenTexts(tokenizer)
    watching = StopTexts(texts, stop)
    for end in range(1, len(ids) + 1):
        whole = tokenizer.decode(ids[:end], skip_special_tokens=True).lstrip()
        expected = any(word in whole for word in stop)
        assert watching.add(ids[end - 1]) == expected
        if expected:
            first = min(whole.index(word) for word in stop if word in whole)
            assert texts.read(ids[:end], stop) == (whole[:first], True)
            break


def test_a_long_reply_is_not_decoded_anew_at_every_token(tokenizer):
    ids = tokens_of(tokenizer, "The river, which is long. " * 100)
    decoded = []

    class CountedTexts(TokenTexts):
        def decode(self, ids):
            decoded.append(len(ids))
            return super().decode(ids)

    texts = CountedTexts(tokenizer)
    watching = StopTexts(texts, (". Karo", "\n"))
    assert not any(watching.add(token) for token in ids)
    assert sum(decoded) < 100 * len(ids) and max(decoded) < 100
