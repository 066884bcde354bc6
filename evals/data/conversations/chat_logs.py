"""Chat logs read as conversations: JSON lines of messages, OpenAI's and LangChain's message
formats, and ChatGPT's export.

A message is one of

    {"role": "user", "content": "I moved.", "time": "2026-03-01T09:00"}
    {"type": "human", "data": {"content": "I moved."}}
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"],
     "kwargs": {"content": "I moved."}}

and a conversation is a list of messages, or an object with the messages in `messages`, or in
`mapping` as in ChatGPT's export. A file with one message per line is one conversation, or several
if messages name theirs in `conversation`.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.data.conversations.conversation import ConversationMessage
from emend.memory.errors import BadData, MissingData
from emend.memory.files import read_file
from emend.memory.json_files import parse_json

# Gap between two messages after which a new session begins.
SESSION_GAP = timedelta(hours=4)
ROLES: Mapping[str, str] = {
    "user": "user",
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
}
# Roles that do not speak in the conversation: system prompts and tool results.
SILENT = frozenset(
    "system systemmessage developer tool toolmessage function functionmessage remove".split()
)
REMEDY = (
    'Give lines such as {"role": "user", "content": "I moved.", "time": "2026-03-01T09:00"}, or '
    "messages in OpenAI's or LangChain's format; see docs/how-to/chat-logs.md."
)


def shown(value: Any) -> str:
    """Return the beginning of a value as an error shows it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


class LogMessage(NamedTuple):
    """A message of a log, with its conversation and session if it names them."""

    role: str
    speaker: str
    text: str
    time: datetime | None
    conversation: str
    session: str


def read_chat_log(path: Path) -> dict[str, tuple[ConversationMessage, ...]]:
    """Return the messages of a log, by conversation.

    Messages of one session have the date of its first one.

    Raises:
        MissingData: the file does not exist.
        BadData: the file is malformed; the error names file, position and field.
    """
    if not path.is_file():
        raise MissingData(f"the chat log '{path}' does not exist, or is not a file. {REMEDY}")
    by_conversation: dict[str, list[LogMessage]] = {}
    for message in _log_messages(_values(path), path.name):
        by_conversation.setdefault(message.conversation, []).append(message)
    if not by_conversation:
        raise BadData(f"{path.name} has no message of a user or an assistant. {REMEDY}")
    return {name: tuple(_dated(messages)) for name, messages in by_conversation.items()}


def _values(path: Path) -> list[tuple[Any, str]]:
    """Return the JSON values of a file, one for all or one per line, each with its position."""
    content = _content_of(path)
    try:
        return [(parse_json(content, path.name), path.name)]
    except BadData:
        if len(content.splitlines()) < 2:
            raise
    return list(json_lines(path))


def json_lines(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield the JSON values of a file of lines, each with its position; blank lines are skipped.

    Raises:
        BadData: a line is not JSON.
    """
    for number, line in enumerate(_content_of(path).splitlines(), 1):
        if line.strip():
            where = f"{path.name}, line {number}"
            yield parse_json(line, where), where


def _content_of(path: Path) -> bytes:
    return read_file(path, links=True)


def _log_messages(values: Iterable[tuple[Any, str]], name: str) -> Iterator[LogMessage]:
    stem = Path(name).stem
    conversations, names = 0, set[str]()
    for value, where in values:
        if isinstance(value, dict) and not _has_messages(value):
            yield from _messages([value], where, stem)
            continue
        lists = value if isinstance(value, list) and all(map(_has_messages, value)) else [value]
        for number, conversation in enumerate(lists):
            conversations += 1
            default = stem if conversations == 1 else f"{stem}-{conversations}"
            position = f"{where}, conversation {number}" if len(lists) > 1 else where
            name = _name(conversation, default)
            if name in names:
                raise BadData(f"{position}: a second conversation '{name}': rename one of them.")
            names.add(name)
            yield from _messages(_content(conversation, position), position, name)


def _has_messages(value: Any) -> bool:
    """Return True if a value is a conversation and not a message."""
    if isinstance(value, dict):
        return "messages" in value or "mapping" in value
    return isinstance(value, list)


def _name(conversation: Any, default: str) -> str:
    if isinstance(conversation, dict):
        return str(conversation.get("id") or conversation.get("conversation_id") or default)
    return default


def _content(conversation: Any, position: str) -> list[Any]:
    """Return the messages of a conversation; in ChatGPT's export, those on the branch that ends in
    the last one.

    Raises:
        BadData: the branch has no end, or leads back to one of its messages.
    """
    if isinstance(conversation, list):
        return conversation
    if not isinstance(conversation, dict):
        return [conversation]
    mapping = conversation.get("mapping")
    if not isinstance(mapping, dict):
        messages = conversation.get("messages")
        return messages if isinstance(messages, list) else [messages]
    node, branch = conversation.get("current_node"), dict[str, Any]()
    if mapping and not (isinstance(node, str) and node in mapping):
        raise BadData(
            f"{position}, field 'current_node': {shown(node)} is not in 'mapping'. Export the "
            "chats again."
        )
    while isinstance(node, str) and isinstance(entry := mapping.get(node), dict):
        if node in branch:
            raise BadData(
                f"{position}, field 'mapping': {shown(node)} is its own parent. Export the chats "
                "again."
            )
        branch[node], node = entry.get("message"), entry.get("parent")
    return [message for message in reversed(branch.values()) if message]


def _messages(values: Iterable[Any], where: str, conversation: str) -> Iterator[LogMessage]:
    for number, value in enumerate(values):
        position = f"{where}, message {number}"
        if not isinstance(value, dict):
            raise BadData(f"{position}: {shown(value)} is not a message. {REMEDY}")
        fields = {**value, **_inner(value, "kwargs"), **_inner(value, "data")}
        role = _role(value, position)
        text = _text(fields.get("content"), position)
        if role and text.strip():
            yield LogMessage(
                role=role,
                speaker=str(fields.get("name") or fields.get("speaker") or role),
                text=text.strip(),
                time=_time(fields, position),
                conversation=str(fields.get("conversation") or conversation),
                session=str(fields.get("session") or ""),
            )


def _inner(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object in a field of LangChain's messages; empty if the field holds none."""
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _role(value: Mapping[str, Any], position: str) -> str:
    """Return `user` or `assistant`; empty for system prompts and tool results.

    Raises:
        BadData: the role is unknown or missing.
    """
    author = value.get("author")
    if isinstance(author, dict):
        role = author.get("role")
    elif value.get("lc"):
        path = value.get("id")
        role = path[-1] if isinstance(path, list) and path else ""
    else:
        role = value.get("role") or value.get("type")
    name = str(role or "").lower()
    if name in SILENT:
        return ""
    if name not in ROLES:
        raise BadData(
            f"{position}, field 'role': {shown(role)} is not user, assistant, system or tool. "
            f"{REMEDY}"
        )
    return ROLES[name]


def _text(content: Any, position: str) -> str:
    """Return the text of a message's content, joined from its parts; empty for tool calls.

    Raises:
        BadData: the content has another type.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, dict) and "parts" in content:
        content = content["parts"]
    if isinstance(content, dict):
        return str(content.get("text") or "")
    if not isinstance(content, list):
        raise BadData(f"{position}, field 'content': {shown(content)} is not a text. {REMEDY}")
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, dict):  # as in threads of OpenAI's Assistants
            text = text.get("value")
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)


def _time(fields: Mapping[str, Any], position: str) -> datetime | None:
    """Return the time in UTC from `time`, `timestamp`, `created_at` or `create_time`: ISO 8601, or
    seconds since 1970.

    Raises:
        BadData: the value is neither.
    """
    names = ("time", "timestamp", "created_at", "create_time")
    name = next((name for name in names if fields.get(name) not in (None, "")), "")
    if not name:
        return None
    value = fields[name]
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        time = datetime.fromisoformat(str(value))
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise BadData(
            f"{position}, field '{name}': {shown(value)} is not a time: write ISO 8601, such as "
            "2026-03-01T09:00, or seconds since 1970."
        ) from error


def _dated(messages: Iterable[LogMessage]) -> Iterator[ConversationMessage]:
    """Yield the messages with their sessions, split by session name or by `SESSION_GAP`."""
    session, number, last, begin = "", 0, None, None
    for position, message in enumerate(messages):
        is_late = bool(message.time and last and message.time - last > SESSION_GAP)
        if position == 0 or message.session != session or (is_late and not message.session):
            session, number, begin = message.session, number + 1, message.time
        last = message.time or last
        yield ConversationMessage(
            id=f"{number}:{position}",
            session=str(number),
            date=begin.strftime("%Y-%m-%d %H:%M") if begin else "",
            speaker=message.speaker,
            role=message.role,
            text=message.text,
        )
