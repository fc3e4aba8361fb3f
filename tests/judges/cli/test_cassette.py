"""`judges cassette`: recorded replies are listed, shown and pruned."""

import json
from pathlib import Path

import pytest

from judges import Store
from judges.testing.running import Sending, run_suite
from judges.testing.suite import Suite
from tests.judges.cli.conftest import PROMPT, Run, write_suite
from tests.judges.loopback import LoopbackServer, status

FILE = Path("cassettes/tone.jsonl")


@pytest.fixture
def suite(server: LoopbackServer) -> Path:
    """A suite whose cassette was recorded."""
    path = write_suite()
    run_suite(Suite.load(path), Sending(mode="once"))
    return path


def keys() -> list[str]:
    return [json.loads(line)["key"] for line in FILE.read_text(encoding="utf-8").splitlines()]


def test_a_list(run: Run, suite: Path) -> None:
    result = run("cassette", "list", FILE)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines() if line[:10] in {key[:10] for key in keys()}]
    assert len(lines) == 4
    assert lines[0][0] == keys()[0][:10]
    assert lines[0][3:7] == ["openai/m", "here", "0", "25"]
    assert " ".join(lines[0]).endswith(('stop {"score": true}', 'stop {"score": false}'))
    assert result.stdout.endswith(f"\n{FILE}: 4 recorded requests\n")


def test_a_failure_is_listed_as_such(run: Run, server: LoopbackServer) -> None:
    server.answer(status(401, "wrong key"))
    run_suite(Suite.load(write_suite(concurrency=1)), Sending(mode="once"))
    result = run("cassette", "list", FILE)
    assert "auth" in result.stdout
    assert result.stdout.endswith("4 recorded requests, 1 of them failed\n")


def test_one_is_shown_by_its_key(run: Run, suite: Path) -> None:
    result = run("cassette", "show", FILE, keys()[1][:12])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"key: {keys()[1]}\nfile: {FILE}:2\n")
    for part in ("model: openai/m", "[system]", "[user]\nIs this reply courteous?", "[reply: stop]\n{", "usage: {"):
        assert part in result.stdout


def test_one_is_shown_by_its_case(run: Run, suite: Path) -> None:
    result = run("cassette", "show", FILE, "--suite", suite, "--case", "rude-2")
    assert result.exit_code == 0
    assert "That is your own fault." in result.stdout and result.stdout.count("[reply: ") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "which exchange? Give the first characters of its KEY, or --suite SUITE --case ID"),
        (["abc", "--case", "rude-1"], "which exchange?"),
        (["zzz"], "holds no such exchange; `judges cassette list cassettes/tone.jsonl` lists them"),
        ([""], "4 keys begin with ''"),
        (["--suite", "tone.judge.yaml", "--case", "rude-3"], "there is no row 'rude-3' that a model is asked about"),
    ],
)
def test_what_is_not_shown(run: Run, suite: Path, args: list[str], message: str) -> None:
    result = run("cassette", "show", FILE, *args)
    assert result.exit_code == 2 and message in result.stderr


def test_pruning(run: Run, suite: Path) -> None:
    run_suite(Suite.load(suite), Sending(mode="all"))
    write_suite(prompt=PROMPT.replace("courteous", "polite"))
    run_suite(Suite.load(suite), Sending(mode="new", update_snapshots=True))
    assert len(keys()) == 12
    dry = run("cassette", "prune", FILE, "--suite", suite, "--dry-run")
    assert len(keys()) == 12
    assert dry.stdout.splitlines()[-1] == f"{FILE}: 4 entries would be kept"
    assert run("cassette", "prune", FILE).stdout.splitlines()[-1] == f"{FILE}: 8 entries kept"
    result = run("cassette", "prune", FILE, "--suite", ".", "--model", "openai/m")
    assert result.exit_code == 0
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["4 asked for by no suite", str(FILE)]
    assert len(keys()) == 4
    assert all(answer.cached for case in run_suite(Suite.load(suite)).cases for answer in case.answers)


def test_a_cassette_that_is_being_written(run: Run, suite: Path) -> None:
    store = Store(FILE)
    store.open()
    result = run("cassette", "prune", FILE)
    assert result.exit_code == 2 and "another process is writing to it" in result.stderr
    store.close()


@pytest.mark.parametrize("command", ["list", "show", "prune"])
def test_a_cassette_that_is_not_there(run: Run, command: str) -> None:
    result = run("cassette", command, "x.jsonl", *(["a"] if command == "show" else []))
    assert result.exit_code == 2 and result.stderr == "judges: x.jsonl: there is no such cassette\n"


@pytest.mark.filterwarnings("default::judges.store.StoreWarning")
@pytest.mark.parametrize("content", [None, b'{"key": "torn', b"not json\n"])
def test_a_file_of_another_kind_is_refused_and_left_alone(run: Run, suite: Path, content: bytes | None) -> None:
    path = suite if content is None else Path("bad.jsonl")
    if content is not None:
        path.write_bytes(content)
    before = path.read_bytes()
    for command in ("list", "prune"):
        result = run("cassette", command, path)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1].startswith(f"judges: {path}: no line of it is an exchange; the cassette")
    assert path.read_bytes() == before
