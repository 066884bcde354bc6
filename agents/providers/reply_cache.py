"""Replies that are kept on disk and found again: the same question to the same model costs nothing twice."""

import json
import sqlite3
import threading
import warnings
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, message_to_dict, messages_from_dict

from emend.memory.edit import content_id
from emend.memory.errors import BadSettings
from emend.memory.secrets import hide_keys

FILE = "replies.sqlite"
VERSION = 1
"""Of the file's form; another one is refused."""


class ReplyCache:
    """A file of replies by key, safe for many threads and processes; it holds JSON and no prompt.

    Args:
        folder: where the file is, or is made.

    Raises:
        BadSettings: the folder cannot be written, or holds a file of another form.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.Lock()
        self._warned = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(self.path, timeout=30, check_same_thread=False, isolation_level=None)
            version = self._open()
        except (OSError, sqlite3.Error) as error:
            raise BadSettings(
                f"the reply cache '{self.path}' cannot be used: {error}. Give another --cache."
            ) from error
        if version not in (0, VERSION):
            self._base.close()
            raise BadSettings(
                f"the reply cache '{self.path}' is of form {version}, this Emend knows {VERSION}: give another --cache."
            )

    def _open(self) -> int:
        (version,) = self._base.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
            self._base.execute(f"PRAGMA user_version={VERSION}")
        self._base.execute("PRAGMA synchronous=NORMAL")
        return int(version)

    def get(self, key: str) -> AIMessage | None:
        """The reply that was kept, marked as cached and without tokens; None where there is none."""
        row = self._do("SELECT reply FROM replies WHERE key = ?", key)
        if row is None:
            return None
        (message,) = messages_from_dict([json.loads(row[0])])
        assert isinstance(message, AIMessage)
        told = message.response_metadata | {"cached": True}
        return message.model_copy(update={"response_metadata": told, "usage_metadata": None})

    def put(self, key: str, message: AIMessage) -> None:
        """Keep a reply; one that is there already stays."""
        told = hide_keys(json.dumps(message_to_dict(message), ensure_ascii=False, default=str))
        self._do("INSERT OR IGNORE INTO replies VALUES (?, ?)", key, told)

    def _do(self, command: str, *values: str) -> tuple[str] | None:
        """The first row that the command gives. A full disk or a locked file costs the cache, not a reply paid for."""
        try:
            with self._lock:
                row: tuple[str] | None = self._base.execute(command, values).fetchone()
        except sqlite3.Error as error:
            if not self._warned:
                self._warned = True
                warnings.warn(f"the reply cache '{self.path}' cannot be used now: {error}.", stacklevel=3)
            return None
        return row

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._base.close()


def reply_key(spec: str, address: str, sent: Any, repeat: int) -> str:
    """What a reply is kept under: model, address, all that was sent, prompt and parameters, and which repeat it is.

    The prompt is there in full, so that another wording of it is another key.
    """
    return content_id("reply", VERSION, spec, address, sent, repeat)
