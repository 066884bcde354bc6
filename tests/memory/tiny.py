"""A BERT of a few thousand random weights, saved to a folder as a model of the Hub would be."""

from pathlib import Path
from typing import Any

WORDS = "[PAD] [UNK] [CLS] [SEP] query passage : . , the of is a in capital river city".split()


def tiny_bert(folder: Path, labels: int = 0) -> Path:
    """The folder, with a tokenizer and an encoder, or a classifier of so many labels."""
    import torch
    import transformers
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    letters = [f"{head}{letter}" for letter in "abcdefghijklmnopqrstuvwxyz" for head in ("", "##")]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join([*WORDS, *letters]))
    fast: Any = transformers.BertTokenizerFast  # type: ignore[attr-defined]
    tokenizer = fast(vocab_file=str(folder / "vocab.txt"), vocab=str(folder / "vocab.txt"))
    configure: Any = BertConfig
    config = configure(
        vocab_size=len(WORDS) + len(letters),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=128,
        num_labels=labels or 2,
    )
    torch.manual_seed(0)
    model = BertForSequenceClassification(config) if labels else BertModel(config)
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.5)
    model.save_pretrained(folder)
    tokenizer.model_max_length = 128
    tokenizer.save_pretrained(folder)
    return folder
