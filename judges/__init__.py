"""LLM judges: prompts, scales, verdicts and model clients.

A judge asks a model one question about a piece of work and returns a `Verdict` or a `JudgeFailure`, never a bare
number:

```python
judge = Judge("Rate the answer.\\n{{ answer | untrusted }}", scale=Likert(1, 5), model="openai/gpt-5-mini")
verdict = await judge.judge(answer=text)
```

In a tree a judge is a leaf, `LLMJudge`. What can go wrong has a kind (`FailureKind`): what may pass is attempted again
(transport, rate_limit, timeout), an unusable reply is asked for once more, and what is left is a `JudgeError` that
names node and kind, or, with `on_failure="unscored"`, a node without a score. Nothing becomes a 0.

Requests are shared with identical ones in flight, limited by concurrency and budget, and kept in a store, from which
they are replayed at no cost.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judges.asking import Options
    from judges.checklist import Checklist, Criterion, CriterionJudge
    from judges.clients.litellm import LiteLLMClient
    from judges.clients.openai_compatible import OpenAICompatibleClient
    from judges.clients.protocol import ChatClient, ChatError, ChatReply, ChatRequest, Message, Price, Token
    from judges.clients.scripted import ScriptedClient
    from judges.compare import Comparison, Game, Grades, GroupwiseJudge, PairwiseJudge
    from judges.expected import label_probabilities
    from judges.group import GroupJudge
    from judges.judge import Judge, Judging
    from judges.jury import Jury
    from judges.leaf import LLMJudge
    from judges.limits import Budget, BudgetExceeded, BudgetLike, Reservation, estimate_tokens
    from judges.prompt import Prompt, PromptWarning
    from judges.ranking import Ranking, bradley_terry, rank_group
    from judges.requirement import RequirementJudge, judged_by
    from judges.scale import Binary, Choice, Likert, Numeric, Scale, scale_from
    from judges.store import Store, StoreWarning
    from judges.trajectory import TrajectoryJudge
    from judges.verdict import FailureKind, JudgeConfigError, JudgeError, JudgeFailure, PromptError, Verdict
    from rubrics.evaluation import Usage

_HOMES = {
    "judges.asking": ["Options"],
    "judges.checklist": ["Checklist", "Criterion", "CriterionJudge"],
    "judges.clients.litellm": ["LiteLLMClient"],
    "judges.clients.openai_compatible": ["OpenAICompatibleClient"],
    "judges.clients.protocol": ["ChatClient", "ChatError", "ChatReply", "ChatRequest", "Message", "Price", "Token"],
    "judges.clients.scripted": ["ScriptedClient"],
    "judges.compare": ["Comparison", "Game", "Grades", "GroupwiseJudge", "PairwiseJudge"],
    "judges.expected": ["label_probabilities"],
    "judges.group": ["GroupJudge"],
    "judges.judge": ["Judge", "Judging"],
    "judges.jury": ["Jury"],
    "judges.leaf": ["LLMJudge"],
    "judges.requirement": ["RequirementJudge", "judged_by"],
    "judges.limits": ["Budget", "BudgetExceeded", "BudgetLike", "Reservation", "estimate_tokens"],
    "judges.prompt": ["Prompt", "PromptWarning"],
    "judges.ranking": ["Ranking", "bradley_terry", "rank_group"],
    "judges.scale": ["Binary", "Choice", "Likert", "Numeric", "Scale", "scale_from"],
    "judges.store": ["Store", "StoreWarning"],
    "judges.trajectory": ["TrajectoryJudge"],
    "judges.verdict": ["FailureKind", "JudgeConfigError", "JudgeError", "JudgeFailure", "PromptError", "Verdict"],
    "rubrics.evaluation": ["Usage"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'judges' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Binary",
    "Budget",
    "BudgetExceeded",
    "BudgetLike",
    "ChatClient",
    "ChatError",
    "ChatReply",
    "ChatRequest",
    "Checklist",
    "Choice",
    "Comparison",
    "Criterion",
    "CriterionJudge",
    "FailureKind",
    "Game",
    "Grades",
    "GroupJudge",
    "GroupwiseJudge",
    "Judge",
    "JudgeConfigError",
    "JudgeError",
    "JudgeFailure",
    "Judging",
    "Jury",
    "LLMJudge",
    "Likert",
    "LiteLLMClient",
    "Message",
    "Numeric",
    "OpenAICompatibleClient",
    "Options",
    "PairwiseJudge",
    "Price",
    "Prompt",
    "PromptError",
    "PromptWarning",
    "Ranking",
    "RequirementJudge",
    "Reservation",
    "Scale",
    "ScriptedClient",
    "Store",
    "StoreWarning",
    "Token",
    "TrajectoryJudge",
    "Usage",
    "Verdict",
    "bradley_terry",
    "estimate_tokens",
    "judged_by",
    "label_probabilities",
    "rank_group",
    "scale_from",
]
