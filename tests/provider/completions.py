"""A server of plain completions on 127.0.0.1 behind which a local model computes: its numbers are true, or spoiled."""

import copy
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from emend.agents.local.causal_lm import CausalLM
from emend.memory.embeddings.threads import one_thread
from tests.provider.loopback import Loopback, LoopbackHandler

NAME = "tiny"
ADAPTER = "an-adapter"
MODEL_FAULTS = ("null", "nan", "floor", "positive", "short", "order", "swapped", "topk", "fewer", "no-logprobs")
"""Faults of log-probabilities that come with status 200."""
PATHS = {
    "vllm": ("/version", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
    "sglang": ("/server_info", "/generate", "/load_lora_adapter", "/unload_lora_adapter"),
    "completions": (),
}
"""Paths of a dialect besides those that all have."""
COMMON = ("/v1/models", "/v1/completions", "/tokenize")
STORED_PENALTY = 1.3
"""Repetition penalty in the model's generation_config.json, which vLLM applies to what a request leaves out."""
SGLANG_RESERVED = 6
"""Positions of the context that SGLang keeps from prompts."""
Choose = Callable[[int, str, dict[str, Any]], str]
"""Names the fault of a request by its number among those of its path, its path and its body."""


class CompletionsServer(Loopback):
    """Speaks as vLLM 0.33, as SGLang 0.5.23 or as any server of completions, whichever `spec` was last asked for.

    Args:
        lm: the model.
        choose: names the fault of each request, "" for none: one of `MODEL_FAULTS`, a status, `cut` or `endless`.
        refuses: words in the body of requests that are refused with status 400, such as `echo`.
        window: `max_model_len` of the model; None gives none.
        drift: added to the log-probabilities that `prompt_logprobs` gives.
    """

    def __init__(
        self,
        lm: CausalLM,
        choose: Choose = lambda number, path, body: "",
        refuses: tuple[str, ...] = (),
        window: int | None = None,
        drift: float = 0.0,
    ) -> None:
        self.lm, self.choose, self.refuses, self.window, self.drift = lm, choose, refuses, window, drift
        self.dialect = "vllm"
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.adapters: dict[str, str] = {}
        self.models: dict[str, Any] = {NAME: lm.model}
        self.lock = threading.RLock()

    @property
    def address(self) -> str:
        """The address of the API."""
        return f"{self.root}/v1"

    def spec(self, dialect: str = "vllm", name: str = NAME) -> str:
        """The model's name on the command line, once the server speaks the dialect."""
        self.dialect = dialect
        return f"{dialect}:{name}@{self.address}"

    def scored(self) -> list[list[list[int]]]:
        """The lists of prompts that were sent to be scored."""
        bodies = [body for _, body in self.requests]
        return [body.get("input_ids") or body["prompt"] for body in bodies if is_scoring(body)]

    def logits(self, model: str, prompts: list[list[int]]) -> list[Any]:
        """Log-probabilities of every next token of each prompt, each of shape (tokens, vocabulary), in one batch."""
        width = max(map(len, prompts))
        batch = torch.tensor([ids + [0] * (width - len(ids)) for ids in prompts])  # no token sees the padding behind it
        with self.lock, one_thread(), torch.inference_mode():
            logits = self.models[model](batch).logits
            return [row[: len(ids)].float().log_softmax(-1) for row, ids in zip(logits, prompts, strict=True)]

    def next_ids(self, model: str, ids: list[int], limit: int, penalty: float, stop: list[str]) -> tuple[str, str]:
        """A greedy continuation before the first stop text, and its finish reason."""
        new: list[int] = []
        while len(new) < limit:
            logits = self.logits(model, [ids + new])[0][-1].clone()
            logits[list({*ids, *new})] *= penalty  # log-probabilities are negative
            token = int(logits.argmax())
            if token in self.lm.ends:
                return self._decoded(new), "stop"
            new.append(token)
            text = self._decoded(new)
            if places := [at for end in stop if (at := text.find(end)) >= 0]:
                return text[: min(places)], "stop"
        return self._decoded(new), "length"

    def _decoded(self, ids: list[int]) -> str:
        return str(self.lm.tokenizer.decode(ids, skip_special_tokens=True))

    def name_of(self, body: dict[str, Any]) -> str:
        """The model that a request is for: SGLang looks at an adapter's field, and not at the model's name."""
        return str(body.get("lora_path", NAME) if self.dialect == "sglang" else body["model"])

    def overflow(self, body: dict[str, Any]) -> str:
        """What the server says of a prompt that is too long for it, or of a limit that it does not take."""
        prompts = body.get("input_ids") or body["prompt"]
        longest = max(map(len, prompts if isinstance(prompts[0], list) else [prompts]))
        if self.dialect == "sglang":
            if body.get("max_tokens") == 0:
                return "Value error, max_tokens must be positive"
            bound = None if self.window is None else self.window - SGLANG_RESERVED
            long = bound is not None and longest >= bound
            return f"Input length ({longest} tokens) exceeds the maximum allowed length ({bound} tokens)." * long
        long = self.window is not None and longest + max(body["max_tokens"], 1) > self.window
        return f"This model's maximum context length is {self.window} tokens, not {longest}." * long


def is_scoring(body: dict[str, Any]) -> bool:
    return "echo" in body or "prompt_logprobs" in body or "return_logprob" in body


def merged(model: Any, folder: Path) -> Any:
    """A copy of a model with an adapter added to it.

    Loading by peft draws numbers and patches modules, which would disturb what other threads of this process train.
    """
    model, tensors = copy.deepcopy(model), load_file(folder / "adapter_model.safetensors")
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    for name, first in tensors.items():
        if "lora_A" in name:
            product = tensors[name.replace("lora_A", "lora_B")] @ first * (config["lora_alpha"] / config["r"])
            path = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            weight = model.get_submodule(path).weight
            weight.data += product.T if config["fan_in_fan_out"] else product
    return model


class CompletionsHandler(LoopbackHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    served: CompletionsServer

    def do_GET(self) -> None:
        """Tell of the models, or of the server."""
        served = self.served
        self._fault({})
        if self.path not in COMMON + PATHS[served.dialect]:
            self._send(404, {"detail": "Not Found"})
        elif self.path == "/v1/models":
            more = {} if served.window is None else {"max_model_len": served.window}
            root = NAME if served.dialect == "sglang" else "/weights/tiny"
            cards = [{"id": NAME, "object": "model", "root": root, "parent": None} | more]
            cards += [{"id": name, "root": path, "parent": NAME} for name, path in served.adapters.items()]
            self._send(200, {"object": "list", "data": cards})
        elif self.path == "/version":
            self._send(200, {"version": "0.33.0"})
        else:
            more = {} if served.window is None else {"max_req_input_len": served.window - SGLANG_RESERVED}
            self._send(200, {"version": "0.5.23", "dtype": "float32", "model_path": "/weights/tiny"} | more)

    def do_POST(self) -> None:
        """Answer one request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fault = self._fault(body)
        if self.path not in COMMON + PATHS[self.served.dialect]:
            self._send(404, {"detail": "Not Found"})
        elif any(word in body for word in self.served.refuses) or fault == "400":
            self._refuse(400, f"Unsupported: {self.served.refuses}")
        elif fault.isdigit():
            self._refuse(int(fault), "The server had an error.")
        elif fault == "endless":
            self._endless()
        elif self.path == "/tokenize":
            ids = self.served.lm.tokenizer(body["prompt"], add_special_tokens=body["add_special_tokens"])["input_ids"]
            self._send(200, {"tokens": ids, "count": len(ids)})
        elif self.path.endswith("lora_adapter"):
            self._adapt(body)
        elif problem := self.served.overflow(body):
            self._refuse(400, problem)
        else:
            reply = self._generated if self.path == "/generate" else self._completions
            self._send(200, reply(body, fault), cut=fault == "cut")

    def _refuse(self, status: int, message: str) -> None:
        error = {"message": message, "type": "BadRequestError", "param": None, "code": status}
        flat = self.served.dialect == "sglang" and self.path != "/generate"
        self._send(status, {"object": "error"} | error if flat else {"error": error})

    def _adapt(self, body: dict[str, Any]) -> None:
        """Load an adapter of PEFT's format beside the model, or drop one; vLLM's replies are plain text."""
        served, name = self.served, body["lora_name"]
        with served.lock:
            if "unload" in self.path:
                del served.models[name], served.adapters[name]
            else:
                served.models[name] = merged(served.lm.model, Path(body["lora_path"]))
                served.adapters[name] = body["lora_path"]
        done = {"success": True, "error_message": None, "loaded_adapters": served.adapters}
        self._send(200, done if served.dialect == "sglang" else f"Success: {name}")

    def _fault(self, body: dict[str, Any]) -> str:
        served = self.served
        with served.lock:
            number = sum(path == self.path for path, _ in served.requests)
            served.requests.append((self.path, body))
            served.headers.append({name.lower(): text for name, text in self.headers.items()})
            return served.choose(number, self.path, body)

    def _completions(self, body: dict[str, Any], fault: str) -> dict[str, Any]:
        prompts = body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]]
        order = list(range(len(prompts)))
        if fault == "swapped":  # the numbers of another prompt, under the right index
            order = order[::-1]
        logits = self.served.logits(self.served.name_of(body), prompts) if is_scoring(body) else prompts
        given = [self._choice(body, ids, rows, fault) for ids, rows in zip(prompts, logits, strict=True)]
        choices = [{"index": number, **given[place]} for number, place in enumerate(order)]
        if fault == "order":
            choices = choices[::-1]
        if fault == "fewer":
            choices = choices[:-1]
        sizes = sum(map(len, prompts)), len(prompts)
        usage = {"prompt_tokens": sizes[0], "completion_tokens": sizes[1], "total_tokens": sum(sizes)}
        return {"object": "text_completion", "choices": choices, "usage": usage}

    def _choice(self, body: dict[str, Any], ids: list[int], logits: Any, fault: str) -> dict[str, Any]:
        served = self.served
        if not is_scoring(body):
            stored = STORED_PENALTY if served.dialect == "vllm" else 1.0
            penalty, stop = body.get("repetition_penalty", stored), body.get("stop", [])
            text, finish = served.next_ids(served.name_of(body), ids, body["max_tokens"], penalty, stop)
            return {"text": text, "finish_reason": finish}
        values: list[Any] = [None, *(float(row[token]) for row, token in zip(logits, ids[1:], strict=False))]
        values = _spoiled(values, fault)
        if fault == "no-logprobs":
            return {"text": "", "finish_reason": "length", "logprobs": None}
        if "prompt_logprobs" in body:
            entries = [None, *(self._entry(*each, fault) for each in zip(logits, ids[1:], values[1:], strict=False))]
            return {"text": "", "finish_reason": "length", "prompt_logprobs": entries}
        best = int(logits[-1].argmax())
        new = [best][: body["max_tokens"]]
        values += [float(logits[-1][best])][: body["max_tokens"]]
        named = body.get("return_tokens_as_token_ids")
        tokens = [f"token_id:{token}" if named else served.lm.tokenizer.decode([token]) for token in [*ids, *new]]
        return {"text": "", "finish_reason": "length", "logprobs": {"tokens": tokens, "token_logprobs": values}}

    def _entry(self, logits: Any, token: int, value: Any, fault: str) -> dict[str, Any]:
        """The most likely token and the given one."""
        if isinstance(value, float):
            value += self.served.drift
        best = int(logits.argmax())
        entry = {str(best): {"logprob": float(logits[best]), "rank": 1}}
        return entry if fault == "topk" else entry | {str(token): {"logprob": value, "rank": 9}}

    def _generated(self, body: dict[str, Any], fault: str) -> list[dict[str, Any]]:
        results = []
        prompts, starts = body["input_ids"], body["logprob_start_len"]
        given = self.served.logits(self.served.name_of(body), prompts)
        for ids, start, logits in zip(prompts, starts, given, strict=True):
            values: list[Any] = [None, *(float(row[token]) for row, token in zip(logits, ids[1:], strict=False))]
            entries = [[value, token, None] for value, token in zip(_spoiled(values, fault), ids, strict=False)][start:]
            entries = [[None, *entries[0][1:]], *entries[1:]]
            results.append({"text": "", "meta_info": {"prompt_tokens": len(ids), "input_token_logprobs": entries}})
        return results[::-1] if fault in ("order", "swapped") else results[:-1] if fault == "fewer" else results

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        except OSError:
            self.close_connection = True

    def _send(self, status: int, body: Any, cut: bool = False) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut


CompletionsServer.handler = CompletionsHandler


def _spoiled(values: list[Any], fault: str) -> list[Any]:
    """Log-probabilities of one prompt, the last one spoiled."""
    last = {"null": None, "nan": float("nan"), "floor": -9999.0, "positive": 0.7}
    if fault in last:
        return [*values[:-1], last[fault]]
    return values[:-1] if fault == "short" else values
