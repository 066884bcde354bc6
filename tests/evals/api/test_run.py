import asyncio
import re
import sys
import threading
from datetime import datetime
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import emend
from emend.editors.registry import EDITORS
from emend.evals.api.result import RunResult
from emend.evals.api.run import RunOptions, new_folder
from emend.evals.config.run_config import RunConfig
from emend.evals.jobs.progress import Progress
from emend.memory.errors import BadSettings, RunRefused
from emend.memory.retrieval.base import Hit
from tests.evals.command_line import trusting_nothing
from tests.evals.toys import ScriptedModel, ToyBenchmark, ToyEditor, untimed


def run(folder, **options):
    toys: dict[str, Any] = {"benchmark": ToyBenchmark, "editors": ToyEditor, "model": ScriptedModel()}
    return emend.run(out=folder, progress=False, **toys | options)


def test_a_run_takes_classes_and_instances_where_the_command_takes_names(tmp_path):
    by_name = emend.run(
        "tests.evals.toys:ToyBenchmark",
        "tests.evals.toys:ToyEditor",
        ScriptedModel(),
        out=tmp_path / "names",
        progress=False,
    )
    for place, benchmark in enumerate((ToyBenchmark, ToyBenchmark(None, {}))):
        by_object = run(tmp_path / str(place), benchmark=benchmark)
        assert sorted(map(untimed, by_object.records())) == sorted(map(untimed, by_name.records()))
        assert by_object.summary and by_object.summary.finished == 6


def test_a_library_that_imports_a_kernel_makes_no_notebook(tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    toys: dict[str, Any] = {"benchmark": ToyBenchmark, "editors": ToyEditor, "model": ScriptedModel()}
    summary = emend.run(out=tmp_path / "run", **toys).summary
    assert summary and summary.finished == 6


def test_objects_that_cannot_be_imported_are_named_in_this_process(tmp_path):
    class Local(ToyEditor):
        pass

    result = run(tmp_path / "x", editors=[Local, lambda context: ToyEditor(context)])
    assert result.manifest.config.editors == ("object:Local", "object:<lambda>")
    assert {record.editor for record in result.records()} == {"object:Local", "object:<lambda>"}
    assert run(tmp_path / "x", editors=[Local, lambda context: ToyEditor(context)]).summary.finished == 0


def test_a_file_may_be_a_path_and_rows_in_memory_are_to_be_saved(tmp_path):
    file = tmp_path / "facts.csv"
    file.write_text("question,answer\nWho leads Acme?,Mira Osei\n")
    assert emend.run(file, ToyEditor, ScriptedModel(), out=tmp_path / "run", progress=False).records()
    for rows in ([{"question": "q?", "answer": "a"}], pytest.importorskip("pandas").DataFrame()):
        with pytest.raises(BadSettings, match=r"is not a benchmark: save the rows as a file of facts"):
            emend.run(rows, ToyEditor, ScriptedModel(), progress=False)


def test_an_object_of_another_process_is_asked_for_again():
    with pytest.raises(BadSettings, match=r"object:Gone.*emend\.run"):
        emend.run(ToyBenchmark, "object:Gone", progress=False)


def test_a_function_is_a_retriever_and_an_instance_an_embedding(tmp_path):
    def last_first(query, corpus, k):
        return [Hit(entry=entry, score=float(place)) for place, entry in enumerate(corpus.entries())][::-1][:k]

    class Letters:
        identity = "letters"

        def documents(self, texts):
            return [[1.0, 0.0] for _ in texts]

        queries = documents

    result = run(tmp_path / "x", editors="rag", retriever=last_first, embedding=Letters(), mode="all")
    config = result.manifest.config
    assert (config.retriever, config.embedding) == ("object:last_first", "object:Letters")
    found = {record.retrieved[0] for record in result.records() if record.retrieved}
    assert len(found) == 1


def test_a_second_call_with_the_same_folder_continues_and_another_run_is_refused(tmp_path):
    assert run(tmp_path / "x", limit=3).summary.finished == 3
    assert run(tmp_path / "x", limit=3).summary.skipped == 3
    with pytest.raises(RunRefused):
        run(tmp_path / "x", limit=3, seed=7)


def test_a_run_without_a_folder_gets_a_new_one_each_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = {run(None, limit=1).folder for _ in range(2)}
    assert len(folders) == 2 and all(folder.parent.name == "runs" for folder in folders)


@pytest.mark.parametrize("wrong", [{"limits": 3}, {"limit": "many"}, {"mode": "some"}])
def test_wrong_options_are_named(tmp_path, wrong):
    with pytest.raises(BadSettings, match=next(iter(wrong))):
        run(tmp_path / "x", **wrong)


def test_a_run_without_editors_says_which_option_is_meant(tmp_path):
    options: Any = {"editor": "rag"}
    with pytest.raises(BadSettings, match="did you mean 'editors'"):
        emend.run(ToyBenchmark, out=tmp_path / "x", **options)
    with pytest.raises(BadSettings, match="no editor is given"):
        emend.run(ToyBenchmark, out=tmp_path / "x")


def test_it_runs_on_a_thread_and_in_an_event_loop(tmp_path):
    results = []
    thread = threading.Thread(target=lambda: results.append(run(tmp_path / "thread")))
    thread.start()
    thread.join(60)

    async def both():
        runs = (
            emend.arun(ToyBenchmark, ToyEditor, ScriptedModel(), out=tmp_path / name, progress=False) for name in "ab"
        )
        return await asyncio.gather(*runs)

    results += asyncio.run(both())
    assert [result.summary.finished for result in results] == [6, 6, 6]


def test_a_run_may_be_called_where_an_event_loop_runs_as_in_a_notebook(tmp_path):
    async def cell():
        return run(tmp_path / "plain"), await asyncio.to_thread(run, tmp_path / "thread")

    results = asyncio.run(cell())
    assert [result.summary.finished for result in results] == [6, 6]


@pytest.mark.parametrize("workers", ["threads", pytest.param("processes:2", marks=pytest.mark.slow)])
def test_a_cancelled_run_stops_and_is_resumable(tmp_path, workers):
    toys = ("tests.evals.toys:ToyBenchmark", "tests.evals.toys:ToyEditor", "tests.evals.toys:ScriptedModel")
    options = {"out": tmp_path / "x", "benchmark_options": {"cases": "40"}, "workers": workers, "concurrency": 1}

    async def cancel():
        class Reports(Progress):
            def unit(self, *counts, **more):
                loop.call_soon_threadsafe(first.set)
                free.wait(60)

        loop, first, free = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        task = asyncio.create_task(emend.arun(*toys, progress=Reports(), **options))
        await first.wait()
        task.cancel()
        await asyncio.sleep(0)
        free.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert 1 <= len(emend.load_run(tmp_path / "x").records()) < 40
    result = emend.run(*toys, progress=False, **options)
    assert result.summary is not None
    assert result.summary.skipped and result.summary.skipped + result.summary.finished == result.summary.units
    assert len(result.records()) == len({(record.unit, record.probe) for record in result.records()})


def test_what_a_call_names_counts_as_typed_and_nothing_else(tmp_path):
    toys = ("tests.evals.toys:ToyBenchmark", "tests.evals.toys:ToyEditor", "tests.evals.toys:ScriptedModel")
    search = {"crag": {"search": "tests.graphs.forms:elsewhere"}}
    with trusting_nothing():
        emend.run(*toys, out=tmp_path / "a", progress=False)
        with pytest.raises(BadSettings, match="--trust tests.evals.toys:HeavyEditor"):
            EDITORS.load("tests.evals.toys:HeavyEditor")
        crag = emend.run(toys[0], "crag", ScriptedModel(), overrides=search, out=tmp_path / "b", progress=False)
        assert crag.records() and emend.load_run(tmp_path / "a").records()
        letters = "emend.memory.embeddings.embed:LexicalEmbedding"
        with emend.open_memory(str(tmp_path / "m"), letters, create=True) as memory:
            assert memory.identity.startswith(letters)
        with emend.edit(toys[2], ["A text."], editor=toys[1]):
            pass


def test_every_option_of_a_run_can_be_given():
    positional = {"benchmark", "editors", "model"}
    assert set(get_type_hints(RunOptions)) | positional == set(RunConfig.model_fields)
    assert all(get_origin(kind) is None or get_args(kind) for kind in get_type_hints(RunOptions).values())


def test_the_package_has_its_names_and_a_version():
    assert set(emend.__all__) <= set(dir(emend))
    assert all(getattr(emend, name) for name in emend.__all__)
    assert emend.RunResult is RunResult
    with pytest.raises(AttributeError, match="rum"):
        emend.rum  # noqa: B018


def test_a_new_folder_has_the_letters_of_the_benchmarks_name_and_the_time():
    assert re.fullmatch(r"runs/a_b-c-d-\d{8}-\d{6}", str(new_folder("a_b-c/d")))


def test_folders_of_runs_that_begin_in_one_second_are_numbered_from_two(tmp_path, monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 2, 3, 4, 5)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emend.evals.api.run.datetime", Clock)
    for name in ("x-20260102-030405", "x-20260102-030405-2", "x-20260102-030405-3"):
        assert new_folder("x").name == name  # though none of these runs has begun
    (tmp_path / "runs" / "x-20260102-030405-4").mkdir(parents=True)  # by another process
    assert new_folder("x").name == "x-20260102-030405-5"
