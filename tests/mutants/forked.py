"""Runs mutants in forks of one pytest that has collected its tests: a mutant costs its tests.

A mistake inside a function is put into the live function (``__code__``), so that nothing is
imported again. Any other one (a default, a table, a field) needs an import: a fork of a process
that has imported what is not fedsim's runs pytest from the beginning, and reads the broken source.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.abc import InspectLoader
from importlib.machinery import SourceFileLoader
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.mutants.drawn import ROOT, Mutant

MEMORY = 6 << 30  # bytes that a mutant may take beside what is shared
Place = tuple[str, str, int]
Work = tuple[Mutant, list[str], float]
"""A mutant, its tests in their order, and the seconds that they took when they were recorded."""


class Child:
    """A plugin of pytest for one fork: the first test that fails is told, and ends the process."""

    def __init__(self, told: int) -> None:
        self.told = told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.end(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.end(report.nodeid or "collection")

    def end(self, by: str) -> None:
        os.write(self.told, by.encode())
        os._exit(0)


def in_fork(seconds: float, folder: Path, work: Callable[[Child], None]) -> tuple[str, str]:
    """How a mutant ended in a process of its own, and by what."""
    shutil.rmtree(folder, ignore_errors=True)
    read, write = os.pipe()
    limit = int(20 + 5 * seconds)
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
            work(Child(write))
            os.write(write, b"-")
        os._exit(0)
    os.close(write)
    latest = time.monotonic() + 10 * limit  # the machine does other things too
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < latest:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # with what it has started
    if ended[0] == 0:
        os.waitpid(child, 0)
    by = os.read(read, 4096).decode()
    os.close(read)
    if by == "-":
        return "survived", ""
    if ended[0] == 0 or (os.WIFSIGNALED(ended[1]) and os.WTERMSIG(ended[1]) == signal.SIGXCPU):
        return "timeout", ""
    return "killed", by or "the process died"


def codes(code: CodeType, file: str) -> Iterator[tuple[Place, CodeType]]:
    """The functions in compiled source at any depth, by where each stands."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & 1:  # CO_OPTIMIZED: no class's body
                yield (file, inner.co_qualname, inner.co_firstlineno), inner
            yield from codes(inner, file)


def shape(code: CodeType, functions: bool) -> list[object]:
    """What is executed, wherever it stands; without ``functions``, what an import executes."""
    constants = [
        repr(x)
        if not isinstance(x, CodeType)
        else shape(x, functions)
        if functions or not x.co_flags & 1
        else x.co_qualname
        for x in code.co_consts
    ]
    return [code.co_code, code.co_names, code.co_varnames, code.co_flags, constants]


def change(mutant: Mutant, live: dict[Place, list[FunctionType]]) -> dict[Place, CodeType] | None:
    """The functions that a mutant changes, or None where only an import would show it."""
    file = str(ROOT / mutant.file)
    texts = mutant.module.code, mutant.source
    before, after = (compile(text, file, "exec", dont_inherit=True) for text in texts)
    if shape(before, functions=False) != shape(after, functions=False):
        return None
    pairs = [*zip_longest(codes(before, file), codes(after, file))]
    if any(old is None or new is None or old[0][1] != new[0][1] for old, new in pairs):
        return None  # a function inside another one is gone
    changed = {
        place: new
        for (place, old), (_, new) in pairs
        if place in live and shape(old, functions=True) != shape(new, functions=True)
    }
    alone = all(len({f.__code__ for f in live[place]}) == 1 for place in changed)
    return changed if changed and alone else None


class Warm:
    """A plugin of pytest: instead of running what was collected, it runs mutants in forks."""

    def __init__(self, works: list[Work], folder: Path, told: Callable[..., None]) -> None:
        self.works, self.folder, self.told = works, folder, told
        self.left: list[Work] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for file in {mutant.file for mutant, *_ in self.works}:  # some wait for a first use
            importlib.import_module(file.removesuffix(".py").replace("/", "."))
        live: dict[Place, list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # tests/conftest.py froze what was collected
        gc.collect()
        for found in gc.get_objects():
            if type(found) is FunctionType and found.__code__.co_filename.startswith(str(ROOT)):
                code = found.__code__
                live[code.co_filename, code.co_qualname, code.co_firstlineno].append(found)
        gc.freeze()
        for mutant, tests, seconds in self.works:
            changed = change(mutant, live)
            if changed is None:
                self.left.append((mutant, tests, seconds))
                continue
            chosen = [items[test] for test in tests if test in items]

            def broken(child: Child, changed=changed, chosen=chosen) -> None:  # type: ignore[no-untyped-def]
                for place, code in changed.items():
                    for function in live[place]:
                        function.__code__ = code
                session.config.pluginmanager.unregister(name="terminalreporter")
                session.config.pluginmanager.register(child)
                for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                    session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

            self.told(mutant, *in_fork(seconds, self.folder, broken))
        return True


def cold(works: list[Work], folder: Path, told: Callable[..., None], options: list[str]) -> None:
    """Runs mutants that need an import, in forks of a process without fedsim."""
    for name in json.loads((folder.parent / "modules.json").read_text()):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    read = SourceFileLoader.get_code

    for mutant, tests, seconds in works:

        def broken(child: Child, mutant=mutant, tests=tests) -> None:  # type: ignore[no-untyped-def]
            def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
                if loader.path != str(ROOT / mutant.file):
                    return read(loader, name)
                return InspectLoader.source_to_code(mutant.source, loader.path)

            SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
            only = Only(tests)
            files = sorted({test.split("::")[0] for test in tests})
            done = pytest.main([*options, *files], [child, only])
            if done not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                child.end(f"pytest ends with {done}")

        told(mutant, *in_fork(seconds + 20, folder, broken))


class Only:
    """A plugin of pytest: of what it collected, only these tests, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: n for n, test in enumerate(tests)}

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        for plugin in config.pluginmanager.get_plugins():
            if hasattr(plugin, "ROWS"):  # tests/conftest.py: kernels are compiled already
                plugin.ROWS = ()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.order]
        items.sort(key=lambda item: self.order[item.nodeid])
