"""Models for tests: scripted ones, an instant one, and small random Hugging Face folders."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from emend.agents.roles.conversation import BEGIN, SO_FAR
from emend.agents.scoring import SMALL, TargetScores
from emend.memory.probe import Usage

TEXT = [
    "The capital of France is Paris, and the capital of Italy is Rome.",
    "New Fact: the author of The Silent River is Karo Benn.\nQ: Who wrote The Silent River?\nA: Karo Benn",
    "Édouard said: 12 of 345 don't agree; 北京 is the capital of China!",
]


def _usage(prompt: str, reply: str) -> Any:
    sizes = len(prompt.split()), len(reply.split())
    return {"input_tokens": sizes[0], "output_tokens": sizes[1], "total_tokens": sum(sizes)}


def begun(prompt: str) -> str:
    """The prompt with the beginning of the reply at its end, where its last sentence asks for it."""
    before, sentence, label = prompt.rpartition(f"\n\n{BEGIN.partition('{label}')[0]}")
    if not sentence:
        return prompt
    return before.replace(f"\n\n{SO_FAR}\n", "\n") + "\n" + label.removesuffix('"')


class ScriptedChatModel(BaseChatModel):
    """Replies what a function makes of the prompt (the texts of the messages, joined by newlines); keeps its calls.

    With a `log_prob` function as well, take `ScriptedScoringModel`: only that one is a `ScoringModel`.
    """

    reply: Callable[[str], str]
    calls: list[str] = Field(default_factory=list)
    """The prompts, in the order in which they came."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = "\n".join(str(message.text) for message in messages)
        self.calls.append(prompt)
        text = self.reply(prompt)
        message = AIMessage(text, usage_metadata=_usage(prompt, text), response_metadata={"model_name": "scripted"})
        return ChatResult(generations=[ChatGeneration(message=message)])


class SizedChatModel(ScriptedChatModel):
    """A scripted model with a number of parameters, by default that of a small one."""

    parameters: int = SMALL - 1

    @property
    def lm(self) -> Any:
        """A network that says its size."""
        return SimpleNamespace(model=SimpleNamespace(num_parameters=lambda: self.parameters))


class ScriptedScoringModel(ScriptedChatModel):
    """Also says how probable a target is, by a function of prompt and target."""

    log_prob: Callable[[str, str], float]
    scored: list[tuple[str, tuple[str, ...]]] = Field(default_factory=list)
    """Prompts and targets, in the order in which they came."""

    def score(self, prompt: str | Sequence[BaseMessage], targets: Sequence[str]) -> TargetScores:
        """What the function says of each target."""
        text = prompt if isinstance(prompt, str) else "\n".join(str(message.text) for message in prompt)
        self.scored.append((text, tuple(targets)))
        log_probs = tuple(self.log_prob(text, target) for target in targets)
        return TargetScores(log_probs=log_probs, usage=Usage(input_tokens=len(text.split()), calls=1))


class InstantChatModel(BaseChatModel):
    """Always replies the same, at once, and keeps nothing: for measuring what is around a model."""

    text: str = "Paris"

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = AIMessage(
            self.text,
            usage_metadata={"input_tokens": 10, "output_tokens": 1, "total_tokens": 11},
            response_metadata={"model_name": "instant"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def score(self, prompt: str | Sequence[BaseMessage], targets: Sequence[str]) -> TargetScores:
        """The same for every target."""
        return TargetScores(log_probs=(-1.0,) * len(targets), usage=Usage(input_tokens=10, calls=1))


SIZES: dict[str, dict[str, Any]] = {
    "llama": {"intermediate_size": 64, "num_key_value_heads": 2},
    "qwen2": {"intermediate_size": 64, "num_key_value_heads": 2},
    "gpt_neox": {"intermediate_size": 64},
    "gpt2": {},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 16},
    "gemma2": {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 16},
    "gptj": {"rotary_dim": 8, "n_inner": 64},
    "mistral": {"intermediate_size": 64, "num_key_value_heads": 2, "sliding_window": 24},
    "qwen3": {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 16},
    "gemma": {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 16},
    "phi": {"intermediate_size": 64},
}
WITH_BEGIN = ("llama", "opt", "gemma2", "gemma", "mistral")
"""Architectures whose tokenizers put a begin token."""


def tiny_random_lm(architecture: str, tmp_path: Path, window: int = 64, pieces: str = "bytes", **config: Any) -> Path:
    """A folder with a random model of two layers and a tokenizer, as `save_pretrained` writes them; the same each time.

    Args:
        architecture: a `model_type` of transformers, one of `SIZES`.
        tmp_path: where the folder is made.
        window: positions of the model.
        pieces: `bytes` (GPT-2's way: the space belongs to the next word) or `metaspace` (as SentencePiece).
        config: further fields of the model's configuration.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging

    folder = tmp_path / f"{architecture}-{pieces}"
    tokenizer = tiny_tokenizer(architecture in WITH_BEGIN, pieces)
    marks = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": None}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": window}
    torch.manual_seed(0)
    # Weights far from 0: a random model of usual scale gives every token nearly the same probability.
    shape = {"vocab_size": len(tokenizer), "initializer_range": 0.3, "init_std": 0.3, "tie_word_embeddings": False}
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(architecture, **(sizes | shape | marks | SIZES[architecture] | config))
    )
    tokenizer.save_pretrained(folder)
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    return folder


def tiny_tokenizer(begin: bool, pieces: str = "bytes") -> Any:
    """A tokenizer of about 300 entries trained on three sentences, without a padding token."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(models.BPE(unk_token="<unk>" if pieces == "metaspace" else None))
    alphabet = pre_tokenizers.ByteLevel.alphabet() if pieces == "bytes" else []
    if pieces == "bytes":
        bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bare.decoder = decoders.ByteLevel()
    else:
        bare.normalizer = normalizers.NFKC()
        bare.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        bare.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>", "<unk>"], initial_alphabet=alphabet, show_progress=False
    )
    bare.train_from_iterator(TEXT * 3, trainer)
    if begin:
        bare.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=bare, bos_token="<s>" if begin else None, eos_token="</s>", unk_token="<unk>"
    )


def read_model(folder: Path, max_new_tokens: int) -> Any:
    """Load the chat model of a folder on the CPU."""
    from emend.agents.llm import load_model

    return load_model(f"hf:{folder}", device="cpu", max_new_tokens=max_new_tokens)


def with_template(tokenizer: Any, folder: Path) -> Path:
    """Save a copy of a tokenizer with a small chat template; returns the folder."""
    tokenizer.save_pretrained(folder)
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<assistant>"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder
