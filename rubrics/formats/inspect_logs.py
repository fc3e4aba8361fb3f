"""Logs of Inspect: `.eval`, a zip file with a member a sample, and `.json`, one document.

A sample in one epoch is an episode, see `conversation`; `attachment://` references are resolved. Logs of older versions
go through inspect_ai's own reader where it is installed, which knows all their forms; those of today's version are read
without it, since importing it takes longer than reading thousands of samples. The samples of a zip file come in the
order of the dataset, one at a time; a JSON log is held in memory as a whole.

    task        {"input", "target", "choices", "metadata", "sample_id", "epoch"}, as in Inspect's own states
    reward      the value of the score, where there is one; or its part "reward", as `rubric_scorer` writes it. Several
                scores are components of a reward that is not in the log, and so are those of a sample that failed
    end         "error" where the sample failed before it was scored, "truncated" where a limit ended it or its last
                output ran out of tokens, else "terminated": a sample is logged when it is over
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

from rubrics.formats.archive import Archive
from rubrics.formats.chat import chat_observation, turns_of_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_list, expect_object, numbers, parse
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Trajectory, wrap

_VERSION = 2  # of logs, since 2024
_HEADERS = ("header.json", "_journal/start.json")  # the first is written last


def _zip(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and head[30:].startswith((b"_journal/", b"samples/", b"header.json"))


def _log(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(record.get("eval"), dict) and record.keys() >= {"version", "status"}


@reader("inspect", detect=_log, sniff=_zip)
def read_inspect(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """Inspect's logs, .eval and .json."""
    samples = _from_archive(source) if source.head().startswith(b"PK") else _from_log(source)
    return source.each(lambda record: _trajectory(record.value, source), samples)


@dataclass(frozen=True, slots=True)
class _Sample:
    data: Any
    place: str
    log: dict[str, Any]


def _from_log(source: Source) -> Iterator[Parsed | FormatProblem]:
    for record in source.records():
        if isinstance(record, FormatProblem):
            yield record
            continue
        samples = (record.value.get("samples") or []) if _log(record.value) else None
        if not isinstance(samples, list):
            yield source.problem(record.line, "expected a log with version, status, eval and a list of samples")
            continue
        for index, sample in enumerate(samples):
            prefix = f"samples.{index}."
            places = [place.removeprefix(prefix) for place in record.not_finite if place.startswith(prefix)]
            yield Parsed(record.line, _Sample(sample, prefix[:-1], record.value), places)


def _from_archive(source: Source) -> Iterator[Parsed | FormatProblem]:
    with source.open() as file:
        seekable: BinaryIO = file if file.seekable() else io.BytesIO(file.read())
        archive = Archive(seekable)
        log: dict[str, Any] = {}
        header = next((name for name in _HEADERS if name in archive.members), None)
        try:
            log = _member(archive, header, 1).value if header else {}
        except FormatError as error:
            yield source.problem(None, str(error))
        for number, name in enumerate(_in_order(archive, log), start=1):
            try:
                sample = _member(archive, name, number)
            except FormatError as error:
                yield source.problem(number, str(error))
            else:
                yield Parsed(number, _Sample(sample.value, name, log), sample.not_finite)
        if archive.damage:
            raise FormatError(archive.damage)


def _member(archive: Archive, name: str, number: int) -> Parsed:
    try:
        return parse(archive.read(name), number)
    except UnicodeDecodeError as error:
        raise FormatError(f"{name}: not UTF-8: {error.reason}") from None
    except FormatError as error:
        message = str(error)
        raise FormatError(message if message.startswith(name) else f"{name}: {message}") from None


def _in_order(archive: Archive, log: dict[str, Any]) -> list[str]:
    """The members that are samples: `samples/<id>_epoch_<number>.json`."""
    names = [name for name in archive.members if name.startswith("samples/") and name.endswith(".json")]
    dataset = (log.get("eval") or {}).get("dataset") or {}
    known = {str(id): place for place, id in enumerate(dataset.get("sample_ids") or ())}

    def place(name: str) -> tuple[int, int]:
        id, _, epoch = name.removeprefix("samples/").removesuffix(".json").rpartition("_epoch_")
        return known.get(id, len(known)), int(epoch) if epoch.isdecimal() else 0

    return sorted(names, key=place)


def _trajectory(sample: _Sample, source: Source) -> Trajectory:
    try:
        return _converted(expect_object(sample.data, "the sample"), sample.log, source)
    except FormatError as error:
        raise FormatError(f"{sample.place}: {error}") from None


def _converted(data: dict[str, Any], log: dict[str, Any], source: Source) -> Trajectory:
    if "id" not in data or "messages" not in data:
        raise FormatError("expected a sample with id and messages")
    expect_list(data["messages"], "messages")
    core = resolved(data, older=log.get("version") != _VERSION or "transcript" in data or "score" in data)
    choices = (core.get("output") or {}).get("choices") or [{}]
    prompt, completion = conversation(core["messages"], choices[0].get("message"))
    end = _end(data, choices[0].get("stop_reason"))
    opening, steps = turns_of_chat(completion, done=end == "terminated", place="messages")
    given, target = core.get("input"), core.get("target")
    id, epoch = data["id"], data.get("epoch", 1)
    scores = data.get("scores") or ({"score": data["score"]} if data.get("score") else {})  # `score` is the older form
    reward, components = _rewards(expect_object(scores, "scores"))
    spec = log.get("eval") or {}
    return Trajectory(
        id=data.get("uuid") or f"{source.stem}/{id}/{epoch}",
        task=wrap(
            {
                "input": [chat_message(message) for message in given] if isinstance(given, list) else given,
                "target": target[0] if isinstance(target, list) and len(target) == 1 else target,
                "choices": core.get("choices") or [],
                "metadata": data.get("metadata") or {},
                "sample_id": id,
                "epoch": epoch,
            }
        ),
        initial=chat_observation([*prompt, *opening]),
        steps=steps,
        end=end,
        reward=None if data.get("error") else reward,
        metadata={
            "group": id,
            "trial": epoch,
            "components": components,
            **({"scores": scores} if scores else {}),
            **{name: data[name] for name in ("limit", "error", "invalidation", "total_time") if data.get(name)},
            **{name: spec[name] for name in ("task", "model", "run_id") if spec.get(name)},
            **({"status": log["status"]} if log.get("status") else {}),
        },
    )


# --- the conversation ------------------------------------------------------------------------------------------------

_CORE = ("id", "epoch", "input", "choices", "target", "messages", "output", "attachments")


def resolved(sample: Mapping[str, Any], older: bool = False) -> dict[str, Any]:
    """Input, target, messages and output of a sample, with what stands for its attachments put in their place.

    Args:
        sample: as it stands in a log.
        older: whether an older version wrote it.
    """
    core = {name: sample[name] for name in _CORE if name in sample}
    if isinstance(sample.get("transcript"), dict):  # the older form
        core.setdefault("attachments", sample["transcript"].get("content"))
    attachments = expect_object(core.pop("attachments", None), "attachments")
    if older and (inspect := _inspect_ai()) is not None:
        core = _through_inspect(inspect, {**core, "attachments": attachments})
    return {name: _attached(value, attachments) for name, value in core.items()}


def _through_inspect(inspect: Any, core: dict[str, Any]) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        sample = inspect.EvalSample.model_validate(core)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise FormatError(f"Inspect cannot read it: {place}: {problem['msg']}") from None
    whole = inspect.resolve_sample_attachments(sample, "core")  # images, mostly; other text is left to us
    return dict(whole.model_dump(mode="json", exclude_none=True, include=set(_CORE)))


@cache
def _inspect_ai() -> Any:
    try:
        from inspect_ai import log
    except ImportError:
        return None
    return log


def _attached(value: Any, attachments: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        protocol, found, name = value.partition("://")
        return attachments.get(name, value) if found and protocol in ("attachment", "tc") else value
    if isinstance(value, dict):
        return {key: _attached(item, attachments) for key, item in value.items()}
    return [_attached(item, attachments) for item in value] if isinstance(value, list) else value


def conversation(
    messages: list[dict[str, Any]], said: dict[str, Any] | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages before the first action, and those from there on, in OpenAI's form.

    Assistant's messages are actions, from the first that was generated: those before it, in the sample's input or put
    in by a solver, are examples. A final output that is not among the messages is one more action.

    Args:
        messages: of a sample, as Inspect writes them.
        said: the message of the sample's output; None where there is none.
    """
    messages = list(messages)
    if said is not None:
        own = [index for index, message in enumerate(messages) if said.get("id") and message.get("id") == said["id"]]
        texts = [_text(message) for message in messages if message.get("role") == "assistant"]
        if own:  # a solver may have set the text of one of the two
            messages[own[0]] = said
        elif not texts or texts[-1] != _text(said):
            messages.append(said)
    spoken = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    generated = [index for index in spoken if messages[index].get("source") == "generate"]
    others = [index for index in spoken if messages[index].get("source") != "input"]
    first = min(generated or others, default=len(messages))
    plain = [chat_message(message) for message in messages]
    return plain[:first], plain[first:]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("type") == "text")


def chat_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of Inspect in OpenAI's form, with reasoning under a key of its own.

    Ids and models are left out: they would tell a judge who wrote what it judges.
    """
    plain = {name: message[name] for name in ("role", "content", "tool_call_id", "metadata") if message.get(name)}
    plain.setdefault("content", message.get("content", ""))
    if message.get("function"):
        plain["name"] = message["function"]
    if error := message.get("error"):
        plain["error"] = {"type": error["type"], "message": error["message"]}
    if message.get("role") != "assistant":
        return plain
    reasoning = [message["reasoning"]] if message.get("reasoning") else []  # the older form
    if isinstance(plain["content"], list):
        thought = [part for part in plain["content"] if part.get("type") == "reasoning"]
        reasoning += [str(part.get("summary") if part.get("redacted") else part["reasoning"]) for part in thought]
        rest = [part for part in plain["content"] if part not in thought]
        only_text = all(part.get("type") == "text" for part in rest)
        plain["content"] = "\n\n".join(part["text"] for part in rest) if only_text else rest
    if reasoning:
        plain["reasoning_content"] = "\n\n".join(reasoning)
    if calls := message.get("tool_calls"):
        plain["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["function"], "arguments": call["arguments"]},
            }
            for call in calls
        ]
    return plain


# --- end and reward --------------------------------------------------------------------------------------------------


def _end(sample: Mapping[str, Any], reason: Any) -> End:
    if sample.get("error") and not _being_scored(sample):
        return "error"
    out_of_tokens = reason in ("max_tokens", "model_length", "length")
    return "truncated" if sample.get("limit") or _limited(sample) or out_of_tokens else "terminated"


def _being_scored(sample: Mapping[str, Any]) -> bool:
    """Whether the agent was done and scorers had begun: what failed was one of them."""
    events = (event for event in sample.get("events") or () if isinstance(event, dict))
    return any(event.get("event") == "span_begin" and event.get("name") == "scorers" for event in events)


def _limited(sample: Mapping[str, Any]) -> bool:
    """Whether a limit was the last word. Older logs have no `limit`, and a limit of a part lets the agent go on."""
    if "limit" in sample:
        return False
    told = [event.get("event") for event in sample.get("events") or () if isinstance(event, dict)]
    return next((kind == "sample_limit" for kind in reversed(told) if kind in ("sample_limit", "model")), False)


def _rewards(scores: Mapping[str, Any]) -> tuple[float | None, dict[str, float | None]]:
    components: dict[str, float | None] = {}
    whole: list[float | None] = []
    for name, score in scores.items():
        value = score.get("value")
        if isinstance(value, dict):
            parts = {f"{name}/{key}": item for key, item in value.items() if key != "reward"}
            whole += [grade(value["reward"])] if "reward" in value else []
        elif isinstance(value, list):
            parts = {f"{name}/{index}": item for index, item in enumerate(value)}
        else:
            parts = {name: value}
        components |= {key: grade(item) for key, item in parts.items()}
    if len(scores) == 1 and scores.keys() == components.keys():
        whole = list(components.values())
    return (whole[0] if len(whole) == 1 else None), components


_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def grade(value: Any) -> float | None:
    """A value of a score as the number that Inspect's metrics make of it; None where it stands for none."""
    if isinstance(value, str):
        known = _GRADES.get(value, _WORDS.get(value.lower()))
        if known is not None:
            return known
        with suppress(ValueError):
            value = float(value)
    return numbers({"value": value}).get("value")
