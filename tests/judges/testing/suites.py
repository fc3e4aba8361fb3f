"""Suites that were judged, without a judge."""

import random
from typing import Any

from judges.testing.golden import GoldenRow
from judges.testing.results import Answer, Case, Flip, Flips, Kind, Order, SnapshotState, SuiteReport, Threshold
from rubrics.evaluation import Usage


def case(id: str, gold: Any, *said: Any, order: Order = "given", **row: Any) -> Case:
    answers = [
        each if isinstance(each, Answer) else Answer(label=each, order=order, sample=n, reason=f"{id} says {each}")
        for n, each in enumerate(said)
    ]
    inputs = row.pop("inputs", {"reply": f"text of {id}"})
    gold = {"winner": gold} if gold in ("a", "b", "tie") else {"label": gold}
    given = GoldenRow.model_validate({"id": id, "inputs": inputs, **gold, **row})
    return Case(row=given, place=f"golden.jsonl:{id}", answers=tuple(answers))


def suite(*cases: Case, kind: Kind = "labels", **fields: Any) -> SuiteReport:
    scale = None if kind == "pairs" else {"type": "binary"}
    return SuiteReport(**{"suite": "tone", "kind": kind, "scale": scale, "cases": cases, **fields})


def tone(rows: int = 60, seed: int = 0, wrong: float = 0.15, **fields: Any) -> SuiteReport:
    """A binary judge with probabilities, failures, an abstention, a stale row, and a perturbation."""
    rng = random.Random(seed)
    cases = []
    for n in range(rows):
        gold = n % 2 == 0
        said = gold if rng.random() > wrong else not gold
        sure = min(1.0, max(0.0, rng.gauss(0.8 if said else 0.2, 0.12)))
        text = ("Gladly! Here is how that is done. " if gold else "Read the manual, it is all there. ") * (n % 6 + 1)
        answer = Answer(
            label=said,
            score=float(said),
            reason=f"The reply {'greets' if said else 'does not greet'} and {'helps' if said else 'scolds'}.",
            reply=f'{{"reason": "…", "score": {str(said).lower()}}}',
            probabilities=[(True, sure), (False, 1.0 - sure)],
            usage=Usage(1, 100, 0, 10, 110, 0.0001),
            worth=Usage(1, 100, 0, 10, 110, 0.0001),
            seconds=0.5 + rng.random(),
        )
        if n % 29 == 7:
            answer = Answer(failure="format", message="the reply holds no verdict", reply="I think it is fine.")
        elif n % 41 == 11:
            answer = Answer(reason="Who can tell?", reply='{"score": null}')
        people = {"ann": gold, "ben": gold if rng.random() > 0.1 else not gold}
        tags = ["short"] if len(text) < 80 else ["long", "polite" if gold else "rude"]
        cases.append(case(f"tone-{n:03}", gold, answer, inputs={"reply": text.strip()}, annotators=people, tags=tags))
    if rows > 20:
        cases[20] = Case(row=cases[20].row, place=cases[20].place, stale=True)
    asked = [each for each in cases if each.said() is not None]
    flips = tuple(
        Flip(
            id=each.row.id,
            before=each.said(),
            after=each.said() != (n % 7 == 0),
            lift=float(n % 7 == 0) * (-1.0 if each.said() else 1.0),
            changed="…, and more of the same",
        )
        for n, each in enumerate(asked)
    )
    given: dict[str, Any] = {
        "model": "openai/m-1",
        "prompt": "tone, version 1",
        "golden": "tone.golden.jsonl",
        "response": "reply",
        "thresholds": {"accuracy": Threshold(at_least=0.6), "true_negative_rate": Threshold(at_least=0.8)},
        "perturbations": (
            Flips(
                name="padding",
                description="a sentence that says nothing is added",
                threshold=Threshold(at_most=0.05),
                verdicts=flips,
            ),
        ),
        "snapshot": SnapshotState(state="changed", path="snapshots/tone.json", difference="-a\n+b", stale=["tone-020"]),
        "usage": Usage(rows, 100 * rows, 0, 10 * rows, 110 * rows, 0.0001 * rows),
    }
    return suite(*cases, **(given | fields))


def better_of_two(rows: int = 30, seed: int = 1, **fields: Any) -> SuiteReport:
    """A judge of pairs that likes the first position."""
    rng = random.Random(seed)
    cases = []
    for n in range(rows):
        gold = "tie" if n % 9 == 5 else "ab"[n % 2]
        said = {"given": gold if rng.random() > 0.3 else "a", "swapped": gold if rng.random() > 0.3 else "b"}
        answers = [
            Answer(
                order=order,
                label=label,
                score={"a": 1.0, "tie": 0.5, "b": 0.0}[label],
                reason=f"{label} is the clearer one.",
                reply=f'{{"winner": "{label}"}}',
                cached=True,
            )
            for order, label in said.items()
        ]
        inputs = {
            "question": f"What is {n} + {n}?",
            "a": f"It is {2 * n}. " * (n % 7 + 1),
            "b": f"{n + n}, I think.",
        }
        cases.append(case(f"pair/{n}", gold, *answers, inputs=inputs, tags=["sums"]))
    given: dict[str, Any] = {
        "suite": "better",
        "kind": "pairs",
        "orders": ("given", "swapped"),
        "thresholds": {"first_position_rate": Threshold(at_least=0.4, at_most=0.6)},
    }
    return suite(*cases, **(given | fields))


def stars(rows: int = 80, seed: int = 2, samples: int = 2, **fields: Any) -> SuiteReport:
    """A judge of one to five stars, asked twice."""
    rng = random.Random(seed)
    cases = []
    for n in range(rows):
        gold = n % 5 + 1
        said = [min(5, max(1, gold + rng.choice([-1, 0, 0, 0, 1]))) for _ in range(samples)]
        answers = [Answer(sample=k, label=each, score=(each - 1) / 4, reason="So so.") for k, each in enumerate(said)]
        cases.append(case(f"s{n}", gold, *answers, inputs={"answer": f"Answer {n}. " * (1 + n % 7)}))
    scale = {"type": "likert", "low": 1, "high": 5}
    return suite(*cases, **({"suite": "stars", "scale": scale, "samples": samples, "response": "answer"} | fields))


def numbers(rows: int = 60, seed: int = 3, **fields: Any) -> SuiteReport:
    """A judge that gives a number from 0 to 10."""
    rng = random.Random(seed)
    cases = []
    for n in range(rows):
        gold = round(rng.uniform(0, 10), 1)
        said = min(10.0, max(0.0, round(gold + rng.gauss(0, 1.2), 1)))
        cases.append(case(f"n{n}", gold, Answer(label=said, score=said / 10, reason="By eye.")))
    scale = {"type": "numeric", "low": 0, "high": 10}
    return suite(*cases, **({"suite": "numbers", "scale": scale, "tolerance": 1.0} | fields))


def podium(rows: int = 15, seed: int = 4, **fields: Any) -> SuiteReport:
    """A judge that grades three candidates."""
    rng = random.Random(seed)
    cases = []
    for n in range(rows):
        candidates = {"x": f"first answer {n}", "y": f"second answer {n}", "z": f"third answer {n}"}
        ranking = rng.sample(list(candidates), 3)
        grades = {name: 3.0 - place + rng.gauss(0, 0.8) for place, name in enumerate(ranking)}
        row = GoldenRow(id=f"r{n}", inputs={"candidates": candidates}, ranking=ranking)
        answer = Answer(label=[grades[name] for name in candidates], reason="All are fine.")
        cases.append(Case(row=row, place=f"podium.jsonl:{n + 1}", answers=(answer,)))
    return suite(*cases, **({"suite": "podium", "kind": "rankings", "scale": None} | fields))
