"""`Judge`: one question to a model about some inputs, answered on a scale."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, Unpack

from judges.aggregate import aggregated
from judges.asking import Asked, Asker, Options, read, together
from judges.clients.protocol import ChatError, ChatReply, ChatRequest, Message
from judges.expected import check_scale, expectation
from judges.fence import GUARD, Rendered
from judges.form import Answer, Form, SingleForm
from judges.prompt import Prompt
from judges.scale import ReadError, Scale
from judges.verdict import JudgeConfigError, JudgeFailure, PromptError, Verdict

SYSTEM = (
    "You are a careful and impartial judge. You judge a piece of work, and you reply in the form that is asked for."
)

_FILE = re.compile(r"\S+\.(md|txt|j2|jinja|jinja2|prompt|ya?ml)")


class Judging(Protocol):
    """What can be asked for a verdict: a `Judge`, or a `Jury` of them."""

    @property
    def variables(self) -> frozenset[str]:
        """The names of the inputs that its templates use."""
        ...

    async def judge(self, **inputs: Any) -> Verdict | JudgeFailure:
        """The verdict on some inputs."""
        ...


class Judge:
    """Asks a model one question and reads its answer off a scale.

    Args:
        prompt: a template, a `Prompt`, or the path of a prompt file (as a `Path`).
        scale: what may be answered; by default the prompt's.
        reason: whether the model writes a reason before the score. False asks for the score alone: cheaper, and better
            for small models. By default True, and False with `expected`.
        expected: score by the probabilities of all labels, instead of the label that was drawn. It needs a model that
            gives log probabilities.
        samples: how often to ask; the mean of the scores is the score, and all must answer (a `Jury` is less strict).
        min_mass: with `expected`, the least probability that the labels must have together.
        options: the model and how it is asked (see `Options`).

    Raises:
        PromptError: the template is wrong.
        JudgeConfigError: anything else is.
    """

    def __init__(
        self,
        prompt: str | Prompt | Path,
        scale: Scale | None = None,
        *,
        reason: bool | None = None,
        expected: bool = False,
        samples: int = 1,
        min_mass: float = 0.5,
        **options: Unpack[Options],
    ) -> None:
        self.prompt = prompt_from(prompt)
        for name, value in (("reason", reason), ("expected", expected)):
            if value is not None and not isinstance(value, bool):
                raise JudgeConfigError(f"{name} is True or False, not {value!r}")
        found = scale if scale is not None else self.prompt.scale
        if not isinstance(found, Scale):
            instead = "; front matter and suites say `scale: binary`" if found is None else f", not {found!r}"
            raise JudgeConfigError(f"a judge needs a scale, such as Binary() or Likert(1, 5){instead}")
        self.scale = found
        if expected and reason:
            raise JudgeConfigError(
                "expected=True asks for the score alone: after a written reason the score's token is all but decided"
            )
        self.reason = bool(reason) if reason is not None else not expected
        self.expected = expected
        if expected:
            check_scale(self.scale)
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise JudgeConfigError(f"samples is a whole number from 1, not {samples!r}")
        self.samples = samples
        if isinstance(min_mass, bool) or not isinstance(min_mass, (int, float)) or not 0.0 <= min_mass <= 1.0:
            raise JudgeConfigError(f"min_mass is in [0, 1], not {min_mass!r}")
        self.min_mass = min_mass
        self.asker = Asker(self.prompt.model, self.prompt.sampling, self.prompt.hash, **options)
        self.use(SingleForm(self.scale, self.reason))

    def __repr__(self) -> str:
        return f"Judge({self.prompt!r}, {self.scale!r})"

    def use(self, form: SingleForm) -> None:
        """Ask for another form of reply, one with evidence."""
        self.form = form
        self._fingerprints: dict[str | None, str] = {}  # by model: a jury asks for it again and again
        self._fixed = fixed_messages(self.prompt, form)

    @property
    def variables(self) -> frozenset[str]:
        """The names of the inputs that the template uses."""
        return self.prompt.variables

    @property
    def model(self) -> str:
        """The model that is asked.

        Raises:
            JudgeConfigError: none is named.
        """
        return self.asker.model

    @property
    def fingerprint(self) -> str:
        """SHA-256 over what decides a verdict: prompt, scale, model, sampling, form and samples; in hex.

        Where no model is named, that is what it says; it is another once JUDGE_MODEL names one.
        """
        model = self.asker.named_model
        if model not in self._fingerprints:
            self._fingerprints[model] = self._fingerprint(model)
        return self._fingerprints[model]

    def _fingerprint(self, model: str | None) -> str:
        asker = self.asker
        decides = [self.prompt.hash, self._fixed, self.form.instruction, json.dumps(self.scale.to_dict())]
        how = [model, asker.sampling, asker.max_tokens, self.expected, self.min_mass, self.samples]
        return sha256(json.dumps([*decides, *how], sort_keys=True).encode()).hexdigest()

    def messages(self, **inputs: Any) -> list[Message]:
        """The conversation that the model is sent.

        Raises:
            PromptError: an input is missing, or cannot be shown.
        """
        return self._messages(self.prompt.render(inputs))

    def request(self, number: int, inputs: Mapping[str, Any]) -> ChatRequest:
        """What is sent first for a sample of the verdict; a reply that cannot be used leads to another request.

        Raises:
            PromptError: an input is missing, or cannot be shown.
            JudgeConfigError: no model is named.
        """
        return self.asker.request(self._messages(self.prompt.render(inputs)), self.form, number, self.expected)

    def _messages(self, rendered: Rendered) -> list[Message]:
        return [*self._fixed, question(rendered, self.form)]

    async def judge(self, **inputs: Any) -> Verdict | JudgeFailure:
        """The verdict on some inputs.

        Args:
            inputs: the values of the template's variables. Others are ignored.

        Returns:
            A verdict, or why there is none.

        Raises:
            PromptError: an input is missing, or cannot be shown.
        """
        if self.samples == 1:
            return await self.sample(0, inputs)
        rendered = self.prompt.render(inputs)
        answers = await together(*(self.ask(rendered, self.form, number) for number in range(self.samples)))
        return aggregated(answers, "mean", quorum=self.samples)

    def judge_sync(self, **inputs: Any) -> Verdict | JudgeFailure:
        """`judge`, for sync code; it blocks the thread."""
        from rubrics.engine.loop import block

        return block(lambda: self.judge(**inputs))

    async def sample(self, number: int, inputs: Mapping[str, Any]) -> Verdict | JudgeFailure:
        """One sample of the verdict. Samples of other numbers are asked for anew, also where a store holds this one."""
        return await self.ask(self.prompt.render(inputs), self.form, number)

    async def ask(self, rendered: Rendered, form: SingleForm, number: int = 0) -> Verdict | JudgeFailure:
        """One sample of the verdict on rendered inputs, read by a form whose words are those of `self.form`."""
        asked = await self.asker.ask(self._messages(rendered), form, rendered.untrusted, number, self.expected)
        return asked.failure or self._verdict(asked)

    def read(self, reply: str, /, **inputs: Any) -> Verdict | JudgeFailure:
        """The verdict that a reply would be. Nothing is sent, and no log probabilities are needed.

        Args:
            reply: the text of a model's reply.
            inputs: the values of the template's variables: what only quotes them is no verdict.

        Raises:
            PromptError: an input is missing, or cannot be shown.
        """
        found = read(ChatReply(reply, "stop"), self.form, self.prompt.render(inputs).untrusted)
        if isinstance(found, ChatError):
            return JudgeFailure(found.kind, found.message, reply=reply)
        answer: Answer = found.answer
        return Verdict(self.scale.score(answer.label), answer.label, answer.reason, reply=reply)

    def _verdict(self, asked: Asked) -> Verdict | JudgeFailure:
        found, reply = asked.found, asked.reply
        assert found is not None and reply is not None
        answer: Answer = found.answer
        score = self.scale.score(answer.label)
        if score is not None and not 0.0 <= score <= 1.0:
            raise JudgeConfigError(f"{self.scale!r} gives {score!r} for {answer.label!r}; a score is in [0, 1]")
        metadata: dict[str, Any] = {} if answer.evidence is None else {"evidence": list(answer.evidence)}
        if self.expected and score is not None:
            try:
                expected = expectation(found, reply.logprobs, self.scale, self.min_mass)
            except ReadError as problem:
                return failed(asked, problem)
            score = expected.score
            metadata = {"probabilities": expected.probabilities, "mass": expected.mass}
        return Verdict(score, answer.label, answer.reason, asked.usage, reply.model, reply.text, asked.cached, metadata)


def failed(asked: Asked, problem: ReadError) -> JudgeFailure:
    """The failure of a reply that was read and will not do all the same."""
    reply = asked.reply
    return JudgeFailure(
        problem.kind,
        problem.message,
        asked.usage,
        None if reply is None else reply.model,
        None if reply is None else reply.text,
        asked.cached,
        None,
        asked.attempts,
    )


def prompt_from(prompt: str | Prompt | Path) -> Prompt:
    """A prompt out of what a judge may be given."""
    if isinstance(prompt, Prompt):
        return prompt
    if isinstance(prompt, Path):
        return Prompt.load(prompt)
    if isinstance(prompt, str) and _FILE.fullmatch(prompt.strip()):
        raise PromptError(f"{prompt!r} looks like the path of a prompt file: give it as Path({prompt!r})")
    return Prompt(prompt)


def question(rendered: Rendered, form: Form) -> Message:
    """The turn that asks: the rendered template, and then the form of the reply."""
    return {"role": "user", "content": f"{rendered.text.rstrip()}\n\n{form.instruction}"}


def fixed_messages(prompt: Prompt, form: Form) -> list[Message]:
    """What stands before the values in every request: providers keep such a prefix.

    Raises:
        PromptError: a graded example does not fit the template or the scale.
    """
    parts = [prompt.system or SYSTEM, *([GUARD] if prompt.fences else [])]
    messages: list[Message] = [{"role": "system", "content": "\n\n".join(parts)}]
    for i, example in enumerate(prompt.examples):
        answer: dict[str, Any] = {"score": example["score"]}
        if not isinstance(form, SingleForm) or form.evidence is not None:
            raise PromptError("graded examples are for judges that give one score")
        if form.reason:
            if not isinstance(example.get("reason"), str):
                raise PromptError(f"example {i} has no reason, and the judge is to give one")
            answer = {"reason": example["reason"], **answer}
        try:
            form.scale.read(example["score"])
        except ReadError as problem:
            raise PromptError(f"example {i}: {problem.message}") from None
        messages.append(question(prompt.render(example["inputs"]), form))
        messages.append({"role": "assistant", "content": json.dumps(answer, ensure_ascii=False)})
    return messages
