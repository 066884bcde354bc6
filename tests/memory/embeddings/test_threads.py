import threading

import torch

from emend.memory.embeddings.threads import one_thread


def test_only_the_calling_thread_has_one_thread_and_only_inside_the_context():
    def threads_of_new_thread(inside=False):
        def look():
            with one_thread(when=inside):
                seen.append(torch.get_num_threads())

        seen: list[int] = []
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return seen[0]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with one_thread(when=False):
            assert torch.get_num_threads() == 3
        with one_thread():
            assert (torch.get_num_threads(), threads_of_new_thread()) == (1, 3)
            with one_thread():
                pass
            assert torch.get_num_threads() == 1
        assert (torch.get_num_threads(), threads_of_new_thread(inside=True)) == (3, 1)
    finally:
        torch.set_num_threads(before)
