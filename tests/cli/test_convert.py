"""`rubrics convert` and `rubrics formats`, from outside."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rubrics.cli.app import app
from rubrics.formats import FormatProblem, Source, read, reader, registry
from rubrics.trajectory import Trajectory

CHAT = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_readers", dict(registry.formats()))

    def run(*args: str) -> Result:
        return CliRunner().invoke(app, list(args), catch_exceptions=False)

    return run


def write(name: str, *records: Any) -> str:
    Path(name).write_text(
        "".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records)
    )
    return name


def trajectories(*paths: str | Path) -> list[Trajectory]:
    items = list(read(paths))
    assert not [str(item) for item in items if isinstance(item, FormatProblem)]
    return [item for item in items if isinstance(item, Trajectory)]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_any_format_becomes_ours_and_reads_back(run: Run, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    chats = write("chats.jsonl", {"messages": CHAT, "reward": 1, "end": "truncated"}, {"messages": CHAT})
    other = write("run.json", {"schema_version": "1.4", "agent": {}, "steps": [{"source": "agent", "message": "A"}]})
    result = run("convert", chats, other, "--out", f"all{suffix}")
    assert result.exit_code == 0
    assert result.stdout == (
        f"all{suffix}: 3 trajectories (2 unfinished, 1 truncated), 1 with a reward; "
        "1 were repaired, see 'repaired' in their metadata\n"
    )
    assert trajectories(f"all{suffix}") == trajectories(chats, other)
    assert list(Path().glob(".*")) == []


def test_what_cannot_be_read_is_told_and_the_rest_is_written(run: Run) -> None:
    chats = write("chats.jsonl", {"messages": CHAT}, "torn", *["torn"] * 30, {"messages": CHAT})
    result = run("convert", chats, "missing.jsonl", "--out", "all.jsonl")
    assert result.exit_code == 2
    assert len(trajectories("all.jsonl")) == 2
    lines = result.stderr.splitlines()
    assert lines[0] == "rubrics: chats.jsonl:2: not JSON: Expecting value (column 1)"
    assert lines[-1] == "rubrics: and 12 more like this"


def test_ids_are_told_apart(run: Run) -> None:
    one, two = write("one.jsonl", {"id": "a", "messages": CHAT}), write("two.jsonl", {"id": "a", "messages": CHAT})
    assert run("convert", one, two, "--out", "all.jsonl").exit_code == 0
    assert [trajectory.id for trajectory in trajectories("all.jsonl")] == ["a", "a#2"]


def test_nothing_is_overwritten_unless_asked(run: Run) -> None:
    chats = write("chats.jsonl", {"messages": CHAT})
    write("all.jsonl", "old")
    result = run("convert", chats, "--out", "all.jsonl")
    assert (result.exit_code, Path("all.jsonl").read_text()) == (2, "old\n")
    assert "all.jsonl exists; choose another file, or give --overwrite" in result.stderr
    result = run("convert", chats, "--out", chats, "--overwrite")
    assert (result.exit_code, "recordings are never overwritten" in result.stderr) == (2, True)
    assert run("convert", chats, "--out", "all.jsonl", "--overwrite").exit_code == 0
    assert len(trajectories("all.jsonl")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "all.csv"), "all.csv: the name must end in .jsonl or .parquet"),
        (("--out", "all.jsonl", "--format", "tau"), "no format 'tau'; known formats: anthropic, "),
        (("--out", "no/folder/all.jsonl"), "no/folder/all.jsonl: cannot be written: No such file or directory"),
    ],
)
def test_what_is_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    result = run("convert", write("chats.jsonl", {"messages": CHAT}), *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_no_trajectories_make_no_file(run: Run) -> None:
    result = run("convert", write("air.json", {"tasks": [], "simulations": []}), "--out", "all.jsonl")
    assert (result.exit_code, result.stdout) == (0, "no trajectories; nothing was written\n")
    assert not Path("all.jsonl").exists()
    result = run("convert", write("torn.jsonl", "torn"), "--out", "all.jsonl")
    assert result.exit_code == 2
    assert not Path("all.jsonl").exists()


def test_a_reader_that_hands_out_what_is_no_json_is_named(run: Run) -> None:
    @reader("odd", detect=lambda record: record == {"odd": 1})
    def read_odd(source: Source) -> Iterator[Trajectory]:
        """Odd."""
        yield Trajectory("odd-1", task={"bytes": b"\xff"})

    write("all.jsonl", "old")
    result = run("convert", write("odd.jsonl", {"odd": 1}), "--out", "all.jsonl", "--overwrite")
    assert result.exit_code == 2
    assert "task cannot be written as JSON" in result.stderr
    assert "in the trajectory 'odd-1'" in result.stderr
    assert Path("all.jsonl").read_text() == "old\n"


def test_formats_are_listed(run: Run) -> None:
    @reader("zebra")
    def read_zebra(source: Source) -> Iterator[Trajectory]:
        """Stripes.

        And more.
        """
        return iter(())

    result = run("formats")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert [line.split()[0] for line in lines] == sorted(registry.formats())
    assert lines[-1].split(maxsplit=1) == ["zebra", "Stripes."]
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_the_real_files_read_back_the_same(run: Run, shared_data: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    folder = shared_data / "trajectories"
    before = [item for item in read(folder) if isinstance(item, Trajectory)]
    assert run("convert", str(folder), "--out", f"all{suffix}").exit_code in (0, 2)
    assert trajectories(f"all{suffix}") == before


def test_a_recording_in_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    recording = tmp_path / "runs" / "a.jsonl"
    recording.parent.mkdir()
    recording.write_text('{"id": "a", "steps": []}\n')
    command = ["convert", str(recording.parent), "--out", str(recording), "--overwrite"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "is one of the inputs" in result.stderr
    assert recording.read_text() == '{"id": "a", "steps": []}\n'
