"""The graph `extract`: its steps, what each switch does, and what becomes of replies that cannot be read."""

import json

import numpy as np
import pytest
from langgraph.errors import GraphRecursionError

from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.policy import CallPolicy
from emend.graphs.execution import run_graph
from emend.graphs.extraction.base import ExtractorOutput
from emend.graphs.extraction.graph import RECURSION_LIMIT, ExtractContext, build, extract_document, extract_edits
from emend.graphs.extraction.llm import LlmExtractor
from emend.graphs.extraction.load import load_extractor
from emend.graphs.extraction.rules import RulesExtractor
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from tests.fakes import ScriptedChatModel

TEXT = "Ana Rojo, an engineer in Chile, was born in Oslo. She likes an old port. She was born in Oslo, in Chile."
ROJO = {"subject": "Ana Rojo", "relation": "was born in", "object": "Oslo"}
GOOD = json.dumps({"triplets": [ROJO]})


class Given(RulesExtractor):
    """As the rules, but the triplets are given."""

    def __init__(self, *triplets):
        self.triplets = tuple(Triplet(subject=s, relation=r, object=o) for s, r, o in triplets)

    def extract(self, sentences, language, failure=""):
        return ExtractorOutput(triplets=self.triplets)


def context(extractor=None, **more):
    return ExtractContext(extractor or RulesExtractor(), LexicalEmbedding(), **more)


def scripted(*replies):
    """A model that gives these replies one after the other, the last one again and again."""
    left = list(replies)
    return ScriptedChatModel(reply=lambda prompt: left.pop(0) if len(left) > 1 else left[0])


def test_the_steps_run_in_their_order_and_every_key_is_in_the_state():
    app = build()
    final, steps = run_graph(app, {"document": TEXT}, context())
    assert [step.node for step in steps] == ["segment", "resolve", "extract", "normalise", "validate", "deduplicate"]
    assert not final.keys() - app.get_output_jsonschema()["properties"].keys()
    assert all(step.update.keys() <= final.keys() for step in steps)
    drawn = app.get_graph().draw_mermaid()
    assert all(name in drawn for name in ("segment", "resolve", "extract", "normalise", "validate", "give_up"))


def test_the_graph_has_a_limit_of_its_own_that_the_most_attempts_do_not_reach():
    app = build()
    assert (app.config or {}).get("recursion_limit") == RECURSION_LIMIT < 100
    told = extract_document(TEXT, context(LlmExtractor(scripted("no")), attempts=10), app=app)
    assert told.failed and told.usage.calls == 10
    with pytest.raises(GraphRecursionError):
        run_graph(app.with_config(recursion_limit=2), {"document": TEXT}, context())


def test_rules_give_triplets_of_names_each_once_and_without_validation_more():
    told = extract_document(TEXT, context())
    assert [t.text for t in told.triplets if t.object == "Oslo"] == ["Ana Rojo born in Oslo"]
    assert not told.reason and not told.failed and told.invalid > 0
    kept = {t.object for t in extract_document(TEXT, context(validation="off")).triplets}
    assert "old port" in kept
    assert "old port" not in {t.object for t in extract_document(TEXT, context()).triplets}


def test_validation_of_the_subject_asks_nothing_of_the_object_and_of_like_triplets_the_first_stays():
    given = Given(("Ana Rojo", "is an", "engineer"), ("her mother", "speaks", "Welsh"))
    assert [t.object for t in extract_document(TEXT, context(given, validation="subject")).triplets] == ["engineer"]
    given = Given(("Ana Rojo", "was born in", "Oslo"), ("Ana Rojo", "born in", "Oslo"), ("Ana Rojo", "speaks", "Welsh"))
    told = extract_document(TEXT, context(given, normalisation=False))
    assert [t.relation for t in told.triplets] == ["was born in", "speaks"] and told.repeated == 1
    assert len(extract_document(TEXT, context(given, deduplication=False)).triplets) == 3


def test_the_wordings_of_one_fact_become_one_triplet_unless_told_otherwise():
    given = Given(("Juan Paz", "is the mayor of", "Oslo"), ("Oslo", "new mayor", "Juan Paz"))
    told = extract_document(TEXT, context(given))
    assert [(t.subject, t.relation, t.object) for t in told.triplets] == [("Oslo", "mayor", "Juan Paz")]
    plain = extract_document(TEXT, context(given, normalisation=False, deduplication=False))
    assert [t.relation for t in plain.triplets] == ["is the mayor of", "new mayor"]


def test_what_held_before_or_names_the_subject_again_is_no_triplet_and_the_reason_says_so():
    told = extract_document(TEXT, context(Given(("Oslo", "former mayor", "Juan Paz"))))
    assert told.triplets == () and told.reason == "no triplet was left: all that were found tell what held before"
    told = extract_document(TEXT, context(Given(("Ana Rojo", "used", "Ana Rojo's voice"))))
    assert told.triplets == () and told.invalid == 1 and "entity at both ends" in told.reason


def test_triplets_of_another_language_and_without_coreference_pronouns_stay():
    given = Given(("Oslo", "new mayor", "Juan Paz"))
    (told,) = extract_document(TEXT, context(given), language="zh").triplets
    assert told.relation == "new mayor"
    text = "Ana Rojo is an engineer in Chile. She speaks Welsh."
    assert "Welsh" in {t.object for t in extract_document(text, context()).triplets}
    assert "Welsh" not in {t.object for t in extract_document(text, context(coreference=False)).triplets}


def test_the_threshold_is_above_nine_tenths_to_a_triplet_that_stays():
    class Turned(LexicalEmbedding):
        """Vectors of length 1 whose cosine is .95 to the next and .805 to the one after that."""

        def documents(self, texts):
            angles = np.arccos(0.95) * np.arange(len(texts))
            return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    given = Given(("Ana", "a", "X"), ("Ana", "b", "Y"), ("Ana", "c", "Z"))
    told = extract_document(TEXT, ExtractContext(given, Turned()))
    assert [t.relation for t in told.triplets] == ["a", "c"]  # b says what a says; c is like b, but b is gone


@pytest.mark.parametrize("text", ["", "   \n", "Nothing was there."])
def test_a_document_without_triplets_has_a_reason(text):
    told = extract_document(text, context())
    assert told.triplets == () and told.reason == "no triplet was found in the document" and not told.failed


def test_a_model_reads_the_document_whole_and_once():
    model = scripted(GOOD)
    told = extract_document(TEXT, context(LlmExtractor(model)))
    assert [t.text for t in told.triplets] == ["Ana Rojo born in Oslo"] and told.usage.calls == 1
    assert len(model.calls) == 1 and TEXT in model.calls[0]


@pytest.mark.parametrize("bad", ["", "I cannot do that.", '{"triplets": [{"subject": 3}]}', '{"triplets": "none"}'])
def test_an_unreadable_reply_is_asked_for_again_and_the_model_is_told_why(bad):
    model = scripted(bad, GOOD)
    told = extract_document(TEXT, context(LlmExtractor(model)))
    assert len(told.triplets) == 1 and not told.failed and told.usage.calls == 2
    assert "could not be used" in model.calls[1] and "could not be used" not in model.calls[0]


def test_a_model_that_is_never_readable_is_given_up_with_reason_and_an_empty_list_is_an_answer():
    model = scripted("Sorry, no.")
    told = extract_document(TEXT, context(LlmExtractor(model), attempts=3))
    assert told.triplets == () and told.failed and told.reply == "Sorry, no."
    assert "asked 3 times" in told.reason and len(model.calls) == 3 == told.usage.calls
    assert told.usage.input_tokens > 0
    told = extract_document(TEXT, context(LlmExtractor(scripted('{"triplets": []}'))))
    assert told.triplets == () and not told.failed and told.reason and told.usage.calls == 1


@pytest.mark.parametrize("wrong", [{"validation": "all"}, {"attempts": 0}, {"attempts": 11}])
def test_impossible_switches_are_refused(wrong):
    with pytest.raises(BadSettings):
        context(**wrong)


def test_the_fingerprint_changes_with_every_switch():
    switches = ("coreference", False), ("validation", "off"), ("deduplication", False), ("attempts", 2)
    others = [context(**{name: value}) for name, value in (*switches, ("normalisation", False))]
    others += [context(LlmExtractor(scripted(""))), context(LlmExtractor(scripted(""), "lines"))]
    assert len({context().fingerprint, *(other.fingerprint for other in others)}) == 8
    assert context().fingerprint == context().fingerprint


def test_edits_keep_id_text_and_order_and_get_triplets():
    edits = [Edit(form="document", text=TEXT, time="2020"), Edit(form="event", text="Nothing was there.")]
    told = extract_edits(edits, context())
    assert [(e.id, e.text, e.form, e.time) for e in told] == [(e.id, e.text, e.form, e.time) for e in edits]
    assert told[0].triplets and told[1].triplets == ()
    (by_model, _) = extract_edits(edits, context(load_extractor("llm", scripted(GOOD, '{"triplets": []}'))))
    assert [t.text for t in by_model.triplets] == ["Ana Rojo born in Oslo"]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("ruls",), BadSettings, "did you mean 'rules'"),
        (("llm",), BadSettings, "needs a model"),
        (("rules", "tiny"), BadSettings, "uses no model"),
        (("spacy",), BadSettings, "rules"),
        (("llm", "tiny", "yaml"), BadSettings, "unknown form 'yaml'"),
    ],
)
def test_a_method_that_cannot_be_used_says_why(arguments, error, says):
    with pytest.raises(error, match=says):
        load_extractor(*arguments)


@pytest.mark.parametrize("ending", ["content_filter", "length"])
@pytest.mark.parametrize("form", ["json", "lines"])
def test_a_refusal_and_a_reply_cut_off_are_paid_for_once(form, ending):
    asked = []

    class Ending(ScriptedChatModel):
        def _generate(self, messages, *more, **told):
            asked.append(messages)
            result = super()._generate(messages, *more, **told)
            result.generations[0].message.response_metadata["finish_reason"] = ending
            return result

    policy = CallPolicy()
    model = ProviderChatModel.wrap(Ending(reply=lambda prompt: ""), "scripted:x", policy)
    told = extract_document(TEXT, context(LlmExtractor(model, form), attempts=3))
    assert told.failed and told.reason.startswith("no usable reply: ") and len(asked) == 1
    policy.close()
