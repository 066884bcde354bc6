"""Patterns that classify sentences of provider errors, in lower case.

Two patterns must match in one sentence, so that advice in the next one ("Add credits to ...") is
ignored.
"""

import re
from collections.abc import Iterable

Sentences = Iterable[str]

MONEY = re.compile(
    r"\bcredits?\b|(?<![-\w])balance|billing|payment|invoice|spending|\bfunds?\b|usage "
    r"limits?\b|prepaid"
    r"|subscription|free (?:tier|quota)|余额|资源包|额度"
)
SPENT = re.compile(
    r"insufficient|not enough|no resource|used (?:all|up)|exhausted|r[ua]n out|out "
    r"of|depleted|exceed"
    r"|reached|reaching|too low|expired|requires?\b|required|negative|不足|用尽|用完|无可用"
)
ACCOUNT = re.compile(r"account|organization|账户|账号|帐户")
SUSPENDED = re.compile(r"suspend|overdue|arrear|good standing|not active|欠费|充值")
CREDIT_CODES = frozenset(
    (
        "1113", "arrearage", "insufficient_quota", "insufficient_user_quota",
        "insufficient_balance",
        "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error",
        "payment_required", "accountoverdueerror", "insufficient_credits",
    )
)  # fmt: skip
# Words that Gemini and OpenAI also use for temporary limits: an accompanying pause counts.
PLAN = re.compile(r"current quota|check your plan")
# Words before the date on which a spending limit ends.
REGAINED = re.compile(r"regain access on|\bresets? (?:on|at) \d")
AFFORD = re.compile(r"requested up to ([\d,]+) tokens\W+but can only afford ([\d,]+)")
# Words for a temporary limit; an accompanying mention of the account's plan is advice.
PASSES = re.compile(r"rate[_ ]?limit|try again in|retry in|per[_ ]?minute|too many requests")
LONG_PERIOD = re.compile(
    r"per[-_ ]?(?:day|week|month)|by(?:day|month)|\b[tr]pd\b|daily|weekly|monthly|86,?400 ?s"
    r"|/ ?(?:day|week|month)\b|\ba day\b|today|每日|每天|每月"
)
LIMIT = re.compile(r"limit|quota|exceed|reached|exhaust|requests|calls|usage|额度|上限")
# Gemini's words for a model that is not in the free tier.
NO_FREE_USE = re.compile(r"quota exceeded.*\blimit: 0\b")

SIZE = re.compile(
    r"tokens?\b|token (?:count|limit)|context|prompt|input (?:length|size|is)|`inputs`|messages"
    r"|max(?:imum)? length|max_seq_len|max_model_len|上下文|输入|内容"
)
EXCESS = re.compile(
    r"exceed|too (?:long|large|many|big)|(?:longer|larger|greater|more|less) than|range of"
    r"|must (?:be )?(?:less|<)|reduce the length|at most|>|超过|超出|过长|limit reached"
    r"|maximum (?:context|model|prompt) length|reached the limit"
)
# Words for a full context window that also count with status 500.
WHOLE_WINDOW = re.compile(
    r"context "
    r"(?:length|window|size|limit)|prompt|exceed_context_size|max_model_len"
)
WINDOW_CODES = frozenset(
    (
        "context_length_exceeded", "exceed_context_size_error", "context_exceeded",
        "string_above_max_length",
        "model_max_prompt_tokens_exceeded", "tokens_limit_reached", "contextwindowexceedederror",
    )
)  # fmt: skip
# OpenAI's words for a parameter that is too long.
OTHER_LENGTH = re.compile(r"'(?!messages|input|prompt)[\w.\[\]]+'\W+(?:array|string) too long")
REPLY_LIMIT = re.compile(r"\bmax_(?:completion_|output_|new_)?tokens\b|num_predict")
TOO_LARGE = re.compile(
    r"too (?:large|high|big|many)|at "
    r"most|range|maximum|above|exceed|greater|>|<=|less than"
)
# vLLM's words for a prompt that leaves no room for a token.
NO_ROOM = re.compile(r"must be at least 1, got -\d")
SUM = re.compile(r"([\d,]+) \+ ([\d,]+) > ([\d,]+)")
SHARES = re.compile(r"\(([\d,]+) in [^()\d]{,20} ([\d,]+) (?:in|for) the completion")
WINDOW = re.compile(r"maximum context length (?:is|of) ([\d,]+)")
INPUT = re.compile(r"has (?:at least )?([\d,]+) input tokens")
# The account's tokens per minute and those of the request, in the format of OpenAI, Azure and Groq.
REQUESTED = re.compile(r"limit:?\W+([\d,]+)\b[^{}]{0,80}?requested:?\W+([\d,]+)")
A_MINUTE = re.compile(r"per min|\btpm\b|rate limit|per day|\btpd\b")
# Words about the size of the request itself, for which waiting does not help.
OVERSIZED = re.compile(
    r"request too large|request_too_large|request exceeds the maximum|request "
    r"body too large"
)
NUMBERS = re.compile(r"\b\d[\d,]{2,}\b")
ASKED = re.compile(r"request|resulted|contains|current|max|limit|got|supports")

FILTERED = re.compile(
    r"moderation|content[_ ]filter|content_policy|content management policy|safety system|sensitive"
    r"|content exists risk|invalid_prompt|data_inspection_failed|inappropriate content|flagged|敏感"
    r"|responsibleaipolicy|prohibited"
)
FILTER_CODES = frozenset(("1301", "content_filter", "content_policy_violation", "invalid_prompt"))
# Words of Gemini, xAI and others for a wrong key, which some reject with status 400.
BAD_KEY = re.compile(
    r"api key not valid|incorrect api key|invalid (?:x-)?api[- "
    r"]key|api_key_invalid|invalid_api_key"
)
# Words about the key and its permissions.
ACCESS = re.compile(
    r"key\b|token|credential|auth|permi(?:ssion|tted)|allowed|access|scope|role|organi[sz]ation|"
    r"project|verif"
)
PLACE = re.compile(r"country|countries|region|territor|location|地区|国家")
NOT_SERVED = re.compile(
    r"not "
    r"(?:supported|available|allowed|permitted|served)|unsupported|restricted|embargo|不支持"
)
PAGE = re.compile(r"<(?:!doctype html|html|head|body|title)\b")
WALL = re.compile(
    r"cloudflare|you have been blocked|attention "
    r"required|firewall|captcha|\bwaf\b|just a moment"
)
BAD_REPLY_CODES = frozenset(
    ("tool_use_failed", "json_validate_failed", "output_parse_failed", "malformed_function_call")
)
BAD_REPLY = re.compile(
    r"failed to (?:call a function|generate json|parse tool call)|tool call "
    r"validation failed"
)
# Response of llama.cpp (status 500) to tools without the required start option: a retry does not
# help.
NO_TOOLS = re.compile(r"requires --jinja")
MODEL_CODES = frozenset(
    ("model_not_found", "model_not_supported", "unknown_model", "modelnotfound")
)
NO_SUCH = re.compile(
    r"not (?:found|exist)|does(?:n't| not) exist|unknown|no such|not a valid|end of life|invalid "
    r"model"
)
PARAMETER_CODES = frozenset(
    (
        "unsupported_parameter", "unsupported_value", "unknown_parameter", "invalid_value",
        "invalid_type",
        "extra_forbidden", "missing", "invalid_parameter_error", "invalidparameter",
        "missing_required_parameter",
    )
)  # fmt: skip
PARAMETER = re.compile(
    r"unsupported|not supported|does(?:n't| not) support|unrecogni[sz]ed|not permitted|unexpected"
    r"|unknown (?:field|name|parameter)|(?:should|must) (?:be|have|contain)|required|is not allowed"
    r"|only .* allowed|\brange\b|invalid (?:value|type|'|para|temperature)|deprecated|missing"
    r"|response_format|json_schema"
)


def meet(sentences: Sentences, *classes: re.Pattern[str]) -> bool:
    """Return whether one of the sentences matches all patterns."""
    return any(all(words.search(sentence) for words in classes) for sentence in sentences)


def number(text: str) -> int:
    """Parse a number that may contain commas."""
    return int(text.replace(",", ""))
