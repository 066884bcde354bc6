"""Measures of a system's store at the places of a stream, including its state against gold."""

from emend.evals.metrics.agents import compare_states
from emend.evals.streams.gold import GoldState, StateFact
from emend.evals.streams.run.line import StoreMeasure
from emend.evals.streams.run.session import StreamSession
from emend.evals.streams.system import HasSize, HasState
from emend.evals.streams.turn import Turn


class StoreMeter:
    """Measures a store and, if the system exposes its state, compares it with gold.

    Args:
        session: the session with the turns so far.
    """

    def __init__(self, session: StreamSession) -> None:
        self._session = session
        self._gold, self._turns = GoldState(), list[Turn]()

    def measure(self, system: object, is_last: bool) -> StoreMeasure:
        """Return the store's size, its state against gold, and the changes by injections.

        Args:
            system: the system with the turns of the session.
            is_last: whether no question of the stream comes later.
        """
        fields: dict[str, float | None] = {}
        if isinstance(system, HasSize):
            size = system.size()
            fields |= {"items": size.items, "bytes": size.bytes}
        if isinstance(system, HasState):
            fields |= self._compare(system, is_last)
        injections = self._session.injections
        if injections:
            fields["injected_calls"] = sum(injections) / len(injections)
            injections.clear()
        return StoreMeasure.model_validate(fields)

    def _compare(self, system: HasState, is_last: bool) -> dict[str, float | None]:
        """Return the comparison of the state with the facts that hold; empty if no fact holds."""
        holds = self._current()
        if not holds:
            return {}
        state = compare_states(system.state(), holds)
        is_final = None
        if is_last:
            is_final = state.is_equal
        return {
            "state_recall": state.recall,
            "state_precision": state.precision,
            "is_final": is_final,
        }

    def _current(self) -> set[StateFact]:
        """Return the facts that hold now, by gold."""
        turns = self._session.turns
        if turns is not self._turns:
            self._gold, self._turns = GoldState(), turns
        for turn in turns[self._gold.turns :]:
            self._gold.apply(turn)
        return self._gold.current()
