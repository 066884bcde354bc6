import threading

from emend.agents.local.weights_lock import WeightsLock


def seen(lock):
    with lock.read_access() as weights:
        return weights


def test_read_access_yields_the_same_number_until_the_weights_may_have_changed():
    lock = WeightsLock()
    first = seen(lock)
    assert first is not None and seen(lock) == first
    with lock:
        pass
    assert seen(lock) not in (None, first)


def test_read_access_yields_none_while_the_lock_is_held():
    """Its holder may change the weights between one question and the next."""
    lock = WeightsLock()
    with lock:
        assert seen(lock) is None
    with lock.read_access() as weights:
        assert weights is not None and seen(lock) is None


def test_it_keeps_others_out_and_lets_its_holder_in_again():
    lock, inside = WeightsLock(), threading.Event()

    def ask():
        with lock.read_access():
            inside.set()

    with lock, lock:
        other = threading.Thread(target=ask)
        other.start()
        assert not inside.wait(0.05)
    other.join(60)
    assert inside.is_set()
