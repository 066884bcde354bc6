"""The tokenizer of the embedded model, trained on its own corpus, and documents as token ids with weights."""

from itertools import chain
from typing import NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from emend.agents.tiny.world import World
from scripts.tiny.corpus import Document
from scripts.tiny.reasoning import TrainingCorpus

BOS, EOS, PAD = 0, 1, 2
VOCABULARY = 2048
SAMPLE = 40_000
NAME_COPIES = 20
"""Every name is repeated, so that each one-word name becomes one token."""
PIECES = r"'s|[^\S\n]?[A-Za-z]+| ?\d+| ?[^\sA-Za-z\d]+|\n+|\s+"


class EncodedDocument(NamedTuple):
    """Token ids with begin and end marks, and the loss weight of each."""

    ids: list[int]
    weights: list[float]


def train_tokenizer(world: World, seed: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE of 2,048 entries; anything can be encoded, names of the world shortly."""
    corpus = TrainingCorpus(world, seed)
    texts = ("".join(span.text for span in corpus.document()) for _ in range(SAMPLE))
    names = (f" {name}" for kind in world.names.values() for name in kind for _ in range(NAME_COPIES))
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bare.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bare.train_from_iterator(chain(texts, names), trainer)
    bare.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", BOS)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bare, bos_token="<s>", eos_token="</s>", pad_token="<pad>", padding_side="left"
    )


def encode(tokenizer: Tokenizer, documents: list[Document]) -> list[EncodedDocument]:
    """Each document as ids and weights; spans are encoded apart, which the pre-tokenizer makes safe."""
    texts = [span.text for document in documents for span in document]
    pieces = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    out = []
    for document in documents:
        ids, weights = [BOS], [0.0]
        for span in document:
            part = next(pieces).ids
            ids += part
            weights += [span.weight] * len(part)
        out.append(EncodedDocument([*ids, EOS], [*weights, 1.0]))
    return out
