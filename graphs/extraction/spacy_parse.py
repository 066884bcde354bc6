"""The extractor over a spaCy pipeline: its sentences, dependency parse and named entities.

spaCy is maintained, runs on a CPU without torch, loads pipelines for some 25 languages by name, and parses and finds
entities in one pass. Stanza is slower and needs torch models from a hub; the coreference and OpenIE tools that DocTER
used (neuralcoref, GEN2OIE) are no longer maintained. spaCy resolves no coreference; the rules do.
"""

import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import dropwhile
from typing import Any

from emend.graphs.extraction import coreference
from emend.graphs.extraction.base import Extractor, ExtractorOutput, rules_digest
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.distribution import install_command
from emend.memory.edit import Triplet
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.relations.words import REPORTING

DEFAULT_PIPELINE = "en_core_web_sm"
SUBJECTS = ("nsubj", "nsubjpass", "nsubj:pass")
DIRECT = ("dobj", "obj", "attr", "oprd", "dative")
CACHED = 256
"""Number of parsed sentences that are cached: each is needed three times."""


class SpacyExtractor(Extractor):
    """Triplets from the dependency parse of each sentence.

    Args:
        pipeline: the name of an installed pipeline, its folder, or a loaded one; by default `en_core_web_sm`.
        form: not used; of a model's replies.

    Raises:
        MissingExtra: spaCy, or the pipeline, is not installed.
        BadSettings: the pipeline has no parser or finds no entities.
    """

    method = "spacy"

    def __init__(self, pipeline: Any = None, form: str = "") -> None:
        pipeline = pipeline or DEFAULT_PIPELINE
        self._nlp = load_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
        lacking = [part for part in ("parser", "ner") if not self._nlp.has_pipe(part)]
        if lacking:
            raise BadSettings(
                f"spaCy pipeline '{self._nlp.meta['name']}' has no {' and no '.join(lacking)}: "
                f"choose one that has, such as {DEFAULT_PIPELINE}."
            )
        meta = self._nlp.meta
        self.fingerprint = f"spacy/{meta['lang']}_{meta['name']}/{meta['version']}/{rules_digest()}"
        self._lock = threading.Lock()
        self._parsed = lru_cache(CACHED)(self._parse)

    def segment(self, document: str) -> list[str]:
        """The sentences, split by the pipeline."""
        lines = split_sentences(document)  # first, because the space after a full stop may be lost
        return [
            sentence.text.strip() for line in lines for sentence in self._parsed(line).sents if sentence.text.strip()
        ]

    def resolve(self, sentences: Sequence[str]) -> list[str]:
        """The sentences with names for pronouns, by the rules."""
        return coreference.resolve(sentences)

    def extract(self, sentences: Sequence[str], language: str, failure: str = "") -> ExtractorOutput:
        """The triplets in the order of the sentences, without repeats; only of the pipeline's language."""
        if language != self._nlp.meta["lang"]:
            raise BadSettings(
                f"spaCy pipeline '{self._nlp.meta['name']}' reads '{self._nlp.meta['lang']}', and a document is in "
                f"'{language}': name a pipeline of that language with --model."
            )
        triplets = (triplet for sentence in sentences for triplet in extract_triplets(self._parsed(sentence)))
        return ExtractorOutput(triplets=tuple(dict.fromkeys(triplets)))

    def is_entity(self, phrase: str, sentences: Sequence[str]) -> bool:
        """Return whether it contains a proper noun or a named entity of the sentences, or is part of one.

        Small pipelines miss many entities whose words they tag as proper nouns.
        """
        plain, docs = phrase.lower(), [self._parsed(sentence) for sentence in sentences]
        entities = (entity.text.lower() for doc in docs for entity in doc.ents)
        names = {token.text.lower() for doc in docs for token in doc if token.pos_ == "PROPN"}
        return not names.isdisjoint(plain.split()) or any(name in plain or plain in name for name in entities)

    def _parse(self, text: str) -> Any:
        with self._lock:
            return self._nlp(text)


def load_pipeline(name: str) -> Any:
    """Load the pipeline of that name or in that folder.

    Raises:
        MissingExtra: spaCy or the pipeline is not installed; the message has the command that installs it.
    """
    try:
        import spacy
    except ImportError as error:
        raise MissingExtra(
            f"method 'spacy' needs spaCy, which is not installed: {install_command('extract')}, or choose 'rules'."
        ) from error
    try:
        return spacy.load(name)
    except OSError as error:
        raise MissingExtra(
            f"spaCy has no pipeline '{name}': python -m spacy download {name}, give its folder, or choose 'rules'."
        ) from error


def extract_triplets(doc: Any) -> Iterator[Triplet]:
    """Triplets of a parsed text: of its verbs, its appositions and its possessives.

    Args:
        doc: a spaCy `Doc` with dependencies as in spaCy's English pipelines (ClearNLP labels).
    """
    for token in doc:
        if token.pos_ in ("VERB", "AUX") and not _reports(token):
            yield from _of_verb(token)
        elif token.dep_ == "appos":
            yield from _apposed(token)
        subject = _of_participle(token)
        if subject is not None:
            was = "was " if token.tag_ == "VBN" else ""
            yield from (
                _triplet(_phrase(subject, inner=True), f"{was}{relation}", thing) for relation, thing in _objects(token)
            )


def _apposed(token: Any) -> Iterator[Triplet]:
    """Triplets of an apposition: 'Ana Rojo, a painter of Chile' and 'the painter, Ana Rojo'."""
    noun, of = (token.head, token) if _name_of(token.head) == token else (token, token.head)
    for relation, thing in _through("is", noun):
        text = _words(thing) if thing == noun else _phrase(thing)
        yield Triplet(subject=_phrase(of, inner=True), relation=relation, object=text)


def _reports(verb: Any) -> bool:
    """Return whether the verb reports speech or thought; the passive, as in 'is known for', does not."""
    passive = any(child.dep_ == "auxpass" for child in verb.children)
    return not passive and not {verb.lemma_.lower(), verb.text.lower()}.isdisjoint(REPORTING)


def _of_participle(token: Any) -> Any:
    """The subject of a participle such as 'born in Oslo': its noun, or the subject of the sentence that it begins."""
    if token.dep_ == "acl" and token.tag_ == "VBN":
        return token.head
    if token.dep_ == "advcl" and token.tag_ in ("VBN", "VBG") and token.i < token.head.i:
        return None if any(child.dep_ in SUBJECTS for child in token.children) else _subject(token.head)
    return None


def _of_verb(verb: Any) -> Iterator[Triplet]:
    subject = _subject(verb)
    if subject is None:
        return
    of = [child for child in subject.children if child.dep_ in ("prep", "poss") and child.text.lower() != "in"]
    for relation, thing in _objects(verb):
        owner = next((_owner(child) for child in of if _owner(child) is not None), None)
        if owner is not None and subject.pos_ == "NOUN":  # 'the capital of X is Y', 'X's capital is Y'
            noun = " ".join(t.text for t in subject.lefts if t.dep_ in ("amod", "compound")) + f" {subject.text}"
            plain = verb.lemma_ == "be" and relation == _verb_text(verb)
            yield _triplet(_phrase(owner), noun.strip() if plain else f"{noun.strip()} {relation}", thing)
        else:
            yield _triplet(_phrase(subject, inner=True), relation, thing)


def _owner(child: Any) -> Any:
    if child.dep_ == "poss":
        return child
    return (
        next((inner for inner in child.children if inner.dep_ == "pobj"), None) if child.text.lower() == "of" else None
    )


def _subject(verb: Any) -> Any:
    """The verb's own subject, that of the verb it is joined to, or the head of its relative clause."""
    for child in verb.lefts:
        if child.dep_ in SUBJECTS:
            if child.tag_ in ("WP", "WDT") and verb.dep_ == "relcl":
                return verb.head
            return None if child.pos_ == "PRON" else child
    if verb.dep_ == "conj" and verb.head.pos_ in ("VERB", "AUX"):
        return _subject(verb.head)
    return None


def _objects(verb: Any) -> Iterator[tuple[str, Any]]:
    """Relations and objects: the verb's direct ones, then those of its prepositions."""
    text = _verb_text(verb)
    direct = next((child for child in verb.children if child.dep_ == "dobj" and child.pos_ == "NOUN"), None)
    what = text if direct is None else f"{text} {_phrase(direct, inner=True)}"  # 'holds citizenship with'
    for child in verb.children:
        if child.dep_ in DIRECT:
            yield from _through(text, child)
        elif child.dep_ in ("prep", "agent"):
            relation = f"{what if child.i > verb.i else text} {child.text.lower()}"
            yield from ((relation, inner) for inner in child.children if inner.dep_ == "pobj")
            for action in (inner for inner in child.children if inner.dep_ == "pcomp"):  # 'known for painting X'
                yield from ((f"{relation} {of}", thing) for of, thing in _objects(action))
        elif child.dep_ in ("acomp", "xcomp"):
            yield from ((f"{text} {relation}", thing) for relation, thing in _objects(child))


def _through(verb: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """'is a citizen of | X' if the noun has a preposition, else the noun itself and those joined to it."""
    inner = [(p, o) for p in thing.children if p.dep_ == "prep" for o in p.children if o.dep_ == "pobj"]
    if inner and thing.pos_ == "NOUN":
        for preposition, of in inner:
            left = " ".join(token.text for token in thing.lefts)
            yield " ".join(f"{verb} {left} {thing.text} {preposition.text}".split()), of
        return
    yield verb, thing
    yield from ((verb, other) for other in thing.children if other.dep_ == "conj")


def _verb_text(verb: Any) -> str:
    aside = ("aux", "auxpass", "neg", "prt")
    parts = [token for token in verb.children if token.dep_ in aside] + [verb]
    return " ".join(token.text.lower() for token in sorted(parts, key=lambda token: token.i))


def _phrase(token: Any, inner: bool = False) -> str:
    """The name in apposition to a noun, else the noun's phrase; `inner` leaves out what follows it."""
    return _words(_name_of(token) or token, inner)


def _words(token: Any, inner: bool = False) -> str:
    """The noun phrase of a token without its determiner; `inner` leaves out what follows the token."""
    words = [t for t in token.subtree if t.i <= token.i or not inner]
    cut = next(
        (i for i, t in enumerate(words) if t.i > token.i and t.dep_ in ("punct", "relcl", "appos", "acl", "cc")), None
    )
    phrase = list(dropwhile(lambda t: t.pos_ == "DET" or t.is_punct, words[:cut]))
    return "".join(t.text_with_ws for t in phrase).strip().removesuffix("'s").strip()


def _name_of(noun: Any) -> Any:
    """The name in apposition to a noun: Ana Rojo in 'the painter, Ana Rojo'."""
    if noun.pos_ != "NOUN":
        return None
    return next((child for child in noun.children if child.dep_ == "appos" and child.pos_ == "PROPN"), None)


def _triplet(subject: str, relation: str, thing: Any) -> Triplet:
    return Triplet(subject=subject, relation=relation, object=_phrase(thing))
