"""Judges as data: what files of rubrics (`rubrics.spec`) call `LLMJudge`, `TrajectoryJudge`, `Checklist`; their parts.

A prompt is a template, or `{file: judge.md}` with a path relative to the file, or `{template: …, system: …, examples:
…}`; in an `LLMJudge` it may also be a judge, `{kind: Jury, judges: […]}`. A scale is as in prompt files:
`{type: likert, low: 1, high: 5}`. Keys have no place in files: they come from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from judges.asking import Asker
from judges.checklist import Checklist, Criterion
from judges.clients.litellm import LiteLLMClient
from judges.clients.openai_compatible import OpenAICompatibleClient
from judges.clients.secret import host_of
from judges.judge import Judge
from judges.jury import Jury
from judges.leaf import LLMJudge
from judges.limits import Budget
from judges.prompt import Prompt
from judges.requirement import RequirementJudge
from judges.scale import Scale, scale_from
from judges.trajectory import TrajectoryJudge
from rubrics.spec.building import Builder, Place
from rubrics.spec.held import Held, HeldKind, HeldPath, stands_for
from rubrics.spec.kinds import Kind, add, kept_argument
from rubrics.spec.writing import Writer

_PROMPT_FIELDS = ("template", "system", "name", "version", "examples")
_USUAL = {"max_tokens": 1024, "timeout": 60.0, "retries": 3, "max_wait": 60.0, "concurrency": 32}


class HeldPrompt(Held):
    """A prompt: a template, a file, or a template with what belongs to it."""

    form: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "string", "description": "a Jinja2 template"},
            {
                "type": "object",
                "properties": {"file": {"type": "string", "description": "a prompt file, relative to this one"}},
                "required": ["file"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {
                    **{name: {"type": "string"} for name in ("template", "system", "name", "version")},
                    "examples": {"type": "array", "items": {"type": "object"}},
                },
                "required": ["template"],
                "additionalProperties": False,
            },
        ]
    }

    @classmethod
    def check(cls, data: Any) -> None:
        if isinstance(data, str) or (isinstance(data, Mapping) and set(data) == {"file"}):
            return
        if not isinstance(data, Mapping) or "template" not in data or not set(data) <= set(_PROMPT_FIELDS):
            raise ValueError(f"a prompt is a template, {{file: …}}, or a mapping of {', '.join(_PROMPT_FIELDS)}")

    def build(self, builder: Builder, place: Place) -> Any:
        if isinstance(self.data, str):
            return self.data
        if "file" in self.data:
            return builder.folder / str(self.data["file"])
        return builder.tried(place, Prompt, self.data)

    @classmethod
    def written(cls, value: Prompt, writer: Writer) -> Any:
        kept = {name: getattr(value, name) for name in _PROMPT_FIELDS}
        said = {name: writer.at(name, part) for name, part in kept.items() if part}
        return value.template if set(said) <= {"template"} else said


class HeldScale(Held):
    """A scale, as in prompt files."""

    form: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"enum": ["binary", "likert", "numeric"]},
            {
                "type": "object",
                "properties": {"type": {"enum": ["binary", "likert", "numeric", "choice"]}},
                "required": ["type"],
            },
        ]
    }

    def build(self, builder: Builder, place: Place) -> Any:
        return builder.tried(place, scale_from, {"data": self.data})

    @classmethod
    def written(cls, value: Scale, writer: Writer) -> Any:
        fields = value.to_dict()
        return fields["type"] if len(fields) == 1 else writer.value(fields)


class HeldBudget(Held):
    """What may be spent: `{calls: …, tokens: …, usd: …}`."""

    form: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "calls": {"type": ["integer", "null"]},
            "tokens": {"type": ["integer", "null"]},
            "usd": {"type": ["number", "null"]},
        },
        "additionalProperties": False,
    }

    @classmethod
    def check(cls, data: Any) -> None:
        if not isinstance(data, Mapping) or not set(data) <= {"calls", "tokens", "usd"}:
            raise ValueError("a budget is a mapping of calls, tokens and usd, or of some of them")

    def build(self, builder: Builder, place: Place) -> Any:
        return builder.tried(place, Budget, self.data)

    @classmethod
    def written(cls, value: Budget, writer: Writer) -> Any:
        limits = {"calls": value.calls, "tokens": value.tokens, "usd": value.usd}
        return {name: limit for name, limit in limits.items() if limit is not None}


class HeldJudge(HeldKind):
    """A judge or a jury."""

    family = "judge"
    form: ClassVar[dict[str, Any]] = {"$comment": "judge"}


class HeldClient(HeldKind):
    """What sends requests."""

    family = "client"
    form: ClassVar[dict[str, Any]] = {"$comment": "client"}


class HeldQuestion(HeldPrompt):
    """What an `LLMJudge` is given: a prompt, or a judge."""

    form: ClassVar[dict[str, Any]] = {"anyOf": [*HeldPrompt.form["anyOf"], HeldJudge.form]}

    @classmethod
    def check(cls, data: Any) -> None:
        if not isinstance(data, Mapping) or "kind" not in data:
            HeldPrompt.check(data)

    def build(self, builder: Builder, place: Place) -> Any:
        if isinstance(self.data, Mapping) and "kind" in self.data:
            return HeldJudge(self.data).build(builder, place)
        return super().build(builder, place)


# -- reading them off objects -----------------------------------------------------------------------------------------


def _options(asker: Asker) -> dict[str, Any]:
    """How a model is asked. The store is left out, and a client that is not one of a file: they decide no score."""
    exchanger = asker.exchanger
    client = exchanger.client
    kept: dict[str, Any] = {"model": asker._model, "sampling": asker.sampling, "price": exchanger.price}
    kept |= {"max_tokens": asker.max_tokens, "retries": asker.retries, "max_wait": asker.max_wait}
    kept |= {"timeout": exchanger.timeout, "concurrency": exchanger.concurrency}
    kept["endpoint"] = None if exchanger.endpoint == client.endpoint else exchanger.endpoint
    kept["budget"] = exchanger.budget if isinstance(exchanger.budget, Budget) else None
    if isinstance(client, LiteLLMClient):
        own = client.api_base is not None and client.api_base != os.environ.get("JUDGE_API_BASE", "").rstrip("/")
        kept["api_base"] = client.api_base if own else None
    elif isinstance(client, OpenAICompatibleClient):
        kept["client"] = client
    return {name: value for name, value in kept.items() if value not in (None, {}) and _USUAL.get(name) != value}


def _prompt(prompt: Prompt) -> str | Prompt:
    plain = not any(getattr(prompt, name) for name in _PROMPT_FIELDS if name != "template")
    return prompt.template if plain else prompt


def _of_judge(judge: Judge) -> dict[str, Any]:
    kept = {"prompt": _prompt(judge.prompt), "scale": judge.scale, "reason": judge.reason, "expected": judge.expected}
    if judge.reason is not judge.expected:  # as it is by default
        del kept["reason"]
    return {**kept, "samples": judge.samples, "min_mass": judge.min_mass, **_options(judge.asker)}


def _of_client(client: OpenAICompatibleClient) -> dict[str, Any]:
    host = host_of(client.address, "OpenAICompatibleClient")
    return {
        "api_base": client.address,
        "wire": client.wire,
        "extra": client._extra or None,
        "max_tokens_field": client._limit_field,
        "endpoint": None if client.endpoint == host else client.endpoint,
    }


def _of_jury(jury: Jury) -> dict[str, Any]:
    return {"judges": jury.judges, "aggregate": jury.aggregate, "quorum": jury.quorum}


def _of_leaf(leaf: LLMJudge) -> dict[str, Any]:
    if not isinstance(leaf.judge, Judge):
        return {"prompt": leaf.judge, "on_failure": leaf.on_failure}
    usual = {"expected": False, "samples": 1, "min_mass": 0.5}
    kept = {name: value for name, value in _of_judge(leaf.judge).items() if name not in usual or usual[name] != value}
    return {**kept, "on_failure": leaf.on_failure}


def _of_requirement_judge(leaf: RequirementJudge) -> dict[str, Any]:
    assert isinstance(leaf.judge, Judge)
    taken = ("reason", "expected", "samples", "min_mass")
    judge = {name: value for name, value in _of_judge(leaf.judge).items() if name not in taken}
    return {"requirement": leaf.requirement, "above": leaf.above, **judge, "on_failure": leaf.on_failure}


def _of_trajectory_judge(node: TrajectoryJudge) -> dict[str, Any]:
    judge = {name: value for name, value in _of_judge(node.judge).items() if name not in ("expected", "min_mass")}
    own = ("evidence", "token_budget", "intermediate_reward", "credit", "on_failure")
    return {**judge, "reason": node.judge.reason, **{name: _kept(node, name) for name in own}}


def _kept(node: Any, name: str) -> Any:
    return node.intermediate_reward if name == "intermediate_reward" else kept_argument(node, name)


def _of_checklist(node: Checklist) -> dict[str, Any]:
    leaves: list[Any] = list(node)
    judge = leaves[0].judge
    if isinstance(judge, Judge):
        scales = [leaf.judge.scale for leaf in leaves]
        how = {name: value for name, value in _of_judge(judge).items() if name != "scale"}
    else:
        scales = [leaf.judge.scales[str(leaf.criterion.id)] for leaf in leaves]
        size = len(judge.criteria)
        how = {
            "prompt": _prompt(judge.prompt),
            "calls": "all" if size == len(leaves) else size,
            **_options(judge.asker),
        }
        how |= {} if judge.form.reason else {"reason": False}
    usual = next((scale for leaf, scale in zip(leaves, scales, strict=True) if leaf.criterion.scale is None), None)
    criteria = []
    for leaf, weight in zip(leaves, node.weights, strict=True):
        given: Criterion = leaf.criterion
        weighs = given.weight if given.weight == weight else weight  # a load of other weights leaves the criteria alone
        own = {} if given.scale is None else {"scale": given.scale}
        criteria.append({"text": given.text, "weight": weighs, "id": given.id, **own})
    return {
        "criteria": criteria,
        "scale": usual,
        **how,
        "on_failure": leaves[0].on_failure,
        "on_unscored": node.on_unscored,
    }


class HeldCriterion(Held):
    """A criterion of a checklist: its text, or `{text: …, weight: …, id: …, scale: …}`."""

    form: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "weight": {"type": "number"},
                    "id": {"type": ["string", "null"]},
                    "scale": HeldScale.form,
                },
                "required": ["text"],
                "additionalProperties": False,
            },
        ]
    }

    @classmethod
    def check(cls, data: Any) -> None:
        if isinstance(data, str):
            return
        if not isinstance(data, Mapping) or "text" not in data or not set(data) <= {"text", "weight", "id", "scale"}:
            raise ValueError("a criterion is a text, or a mapping with a text and perhaps weight, id and scale")

    def build(self, builder: Builder, place: Place) -> Any:
        if isinstance(self.data, str):
            return self.data
        fields = dict(self.data)
        if "scale" in fields:
            fields["scale"] = HeldScale(fields["scale"]).build(builder, (*place, "scale"))
        return builder.tried(place, Criterion, fields)


_SHARED: dict[str, Any] = {"api_key": None, "budget": HeldBudget, "client": HeldClient, "store": HeldPath}

stands_for(HeldPrompt, Prompt)
stands_for(HeldScale, Scale)
stands_for(HeldBudget, Budget)
stands_for(HeldJudge, Judge, lambda value: isinstance(value, (Judge, Jury)))
stands_for(HeldClient, OpenAICompatibleClient)

for _kind in (
    Kind("LLMJudge", LLMJudge, {**_SHARED, "prompt": HeldQuestion}, _of_leaf),
    Kind("TrajectoryJudge", TrajectoryJudge, {**_SHARED, "prompt": HeldPrompt}, _of_trajectory_judge),
    Kind("Checklist", Checklist, {**_SHARED, "prompt": HeldPrompt, "criteria": list[HeldCriterion]}, _of_checklist),
    Kind("RequirementJudge", RequirementJudge, {**_SHARED, "prompt": HeldPrompt}, _of_requirement_judge),
    Kind("Judge", Judge, {**_SHARED, "prompt": HeldPrompt}, _of_judge, "judge"),
    Kind("Jury", Jury, {"judges": HeldJudge | list[HeldJudge]}, _of_jury, "judge"),
    Kind("LiteLLMClient", LiteLLMClient, {"api_key": None}, family="client"),
    Kind("OpenAICompatibleClient", OpenAICompatibleClient, {"api_key": None}, _of_client, "client"),
):
    add(_kind)

__all__ = ["HeldBudget", "HeldClient", "HeldCriterion", "HeldJudge", "HeldPrompt", "HeldScale"]
