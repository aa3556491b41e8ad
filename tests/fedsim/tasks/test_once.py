"""Data sets are read once, by one of all who ask at the same time."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fedsim.tasks.data.once import Once


def test_threads_wait_for_one_copy() -> None:
    calls: list[str] = []

    def read(folder: str) -> Any:
        calls.append(folder)
        time.sleep(0.02)  # long enough for all to ask
        return [folder]

    once = Once(read)
    with ThreadPoolExecutor(8) as pool:
        copies = list(pool.map(once, ["a"] * 8))
    assert calls == ["a"] and all(copy is copies[0] for copy in copies)
    once("b")
    assert once("a") is not copies[0]  # one is kept, the last
    once.forget()
    once("a")
    assert calls == ["a", "b", "a", "a"]


def test_several_copies_are_kept_where_they_are_asked_for() -> None:
    once = Once(lambda name: [name], copies=2)
    first = once("MNIST")
    once("FashionMNIST")
    assert once("MNIST") is first
