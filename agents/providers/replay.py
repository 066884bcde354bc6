"""Replies that units in work have had, kept until the unit ends: a run that goes on asks again only what was under way.

This is no cache of answers: a reply is found again by the very unit that asked for it, in its place among equal ones.
Each unit has a small file of its own, so that units that ask at the same time do not wait for one another.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import FileIO
from pathlib import Path
from typing import Any, Self

from langchain_core.messages import AIMessage, BaseMessage, message_to_dict, messages_from_dict

from emend.memory.edit import content_id
from emend.memory.errors import BadSettings
from emend.memory.secrets import hide_keys

FOLDER = "unfinished"


class Unfinished:
    """The kept replies of a run, in a folder of its own inside the run's, one file per unit; a context manager.

    Args:
        folder: of the run.
        finished: keys of units that have ended, of which a killed process may have left replies.

    Raises:
        BadSettings: the folder cannot be written.
    """

    def __init__(self, folder: Path, finished: Collection[str] = ()) -> None:
        self.folder = folder / FOLDER
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for kept in self.folder.glob("*.jsonl"):
                if kept.stem in finished:
                    kept.unlink()
        except OSError as error:
            raise BadSettings(f"replies cannot be kept in '{self.folder}': {error}. Give another --out.") from error

    def file(self, unit: str) -> Path:
        """Where the replies of that unit are."""
        return self.folder / f"{unit}.jsonl"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Where every unit has ended nothing is left."""
        with suppress(OSError):
            self.folder.rmdir()


@contextmanager
def working(kept: Unfinished | None, unit: str, goes_on: Callable[[Exception], bool]) -> Iterator[None]:
    """Calls made meanwhile belong to this unit, whose replies are let go of when it ends, well or with an error.

    Args:
        kept: where they are; None keeps none.
        unit: the unit's key.
        goes_on: whether an error ends the run and not the unit, which is then gone on with on resume.
    """
    if kept is None:
        yield
        return
    work = _Work(kept.file(unit))
    token = _WORK.set(work)
    ended = True
    try:
        yield
    except Exception as error:
        ended = not goes_on(error)
        raise
    except BaseException:  # an interruption from the keyboard
        ended = False
        raise
    finally:
        _WORK.reset(token)
        work.close(ended)


class _Work:
    """One unit in work: how often it has asked each thing, and the replies that it had."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._replies = dict(_kept(path))
        self._asked, self._lock = Counter[str](), threading.Lock()

    def key(self, *asked: object) -> str:
        """The key of the reply to what is asked now."""
        what = content_id(*asked)
        with self._lock:
            self._asked[what] += 1
            return f"{what}/{self._asked[what]}"

    def found(self, key: str) -> AIMessage | None:
        """The reply that was kept, as it came; None where there is none."""
        if key not in self._replies:
            return None
        (message,) = messages_from_dict([self._replies[key]])
        assert isinstance(message, AIMessage)
        return message

    def put(self, key: str, message: AIMessage) -> None:
        """Keep a reply; without a wait for the disk, as a process that is killed loses nothing by that."""
        told = hide_keys(json.dumps({"key": key, "reply": message_to_dict(message)}, ensure_ascii=False, default=str))
        with self._lock, suppress(OSError):  # of a full disk the records will tell
            if self._file is None:
                self.path.parent.mkdir(exist_ok=True)  # a run that ended before its threads took the folder away
                self._file = self.path.open("ab", buffering=0)
                self._file.write(b"\n" if self._file.tell() else b"")  # the last line may be torn
            self._file.write(f"{told}\n".encode())

    def close(self, ended: bool) -> None:
        """Let go of the file, and of what is in it where the unit has ended."""
        if self._file is not None:
            self._file.close()
        if ended and (self._file is not None or self._replies):
            self.path.unlink(missing_ok=True)


def _kept(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The whole lines of a unit's file."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        with suppress(ValueError):
            row = json.loads(line)
            yield row["key"], row["reply"]


_WORK: ContextVar[_Work | None] = ContextVar("work", default=None)


def remembered(ask: Callable[[], AIMessage], spec: str, messages: Sequence[BaseMessage], *more: object) -> AIMessage:
    """The reply that the unit in work had before the run was broken off, as it came; else what asking gives.

    Args:
        ask: makes the call.
        spec: the model's name.
        messages: what is asked.
        more: what else decides the reply, as JSON can hold it.
    """
    work = _WORK.get()
    if work is None:
        return ask()
    told: list[Any] = [[one.type, one.content, getattr(one, "tool_calls", None)] for one in messages]
    key = work.key(spec, told, *more)
    kept = work.found(key)
    if kept is None:
        kept = ask()
        work.put(key, kept)
    return kept
