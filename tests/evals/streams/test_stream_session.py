"""Memories that are kept over processes: no turn twice, and none that comes after the question."""

from pathlib import Path
from typing import Any

import pytest

from emend.evals.streams.run.session import OBSERVED, StreamSession
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.errors import BadData

TURNS = [Turn(text=f"turn {number}") for number in range(6)]


class FileSystem:
    """Keeps the texts of turns as lines of a file, each as often as it is observed."""

    def __init__(self, folder: Path | None) -> None:
        assert folder is not None
        self.file = folder / "lines"

    @property
    def texts(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def observe(self, turn: Turn) -> None:
        with self.file.open("a") as file:
            file.write(f"{turn.text}\n")


def session(folder: Path) -> StreamSession:
    return StreamSession(FileSystem, folder)


def observed(session: StreamSession, count: int, place: int | None = None) -> list[str]:
    """What the store has for a question after so many turns."""
    with session as opened:
        for turn in TURNS[:count]:
            opened.observe(turn)
        system: Any = opened.system_at(StreamQuestion(text="?", kind="current"))
        return list(system.texts)


def texts(count: int) -> list[str]:
    return [turn.text for turn in TURNS[:count]]


def test_turns_of_an_earlier_process_are_not_observed_again(tmp_path: Path):
    assert observed(session(tmp_path), 3) == texts(3)
    assert observed(session(tmp_path), 5) == texts(5)


def test_a_store_that_is_ahead_of_the_question_is_made_anew(tmp_path: Path):
    observed(session(tmp_path), 5)
    assert observed(session(tmp_path), 2) == texts(2)


def test_a_store_of_other_turns_is_made_anew(tmp_path: Path):
    with session(tmp_path) as opened:
        for turn in reversed(TURNS):
            opened.observe(turn)
    assert observed(session(tmp_path), 4) == texts(4)


def test_a_turn_whose_note_was_cut_off_is_observed_again(tmp_path: Path):
    observed(session(tmp_path), 4)
    (note,) = tmp_path.glob(f"*/{OBSERVED}")
    note.write_bytes(note.read_bytes()[:-3])
    assert observed(session(tmp_path), 4) == [*texts(4), TURNS[3].text]
    assert note.read_text().split() == [turn.id for turn in TURNS[:4]]


def test_two_passes_at_once_do_not_share_a_store(tmp_path: Path):
    with session(tmp_path) as first:
        first.observe(TURNS[0])
        assert observed(session(tmp_path), 3) == texts(3)
    assert observed(session(tmp_path), 1) == texts(1)


def test_a_question_of_a_stream_that_has_not_begun_is_an_error(tmp_path: Path):
    with session(tmp_path) as opened, pytest.raises(BadData, match="where next"):
        opened.system_at(StreamQuestion(text="where next?", kind="current", stream="b"))
