"""LLM judges: prompts, scales, verdicts and model clients.

A judge asks a model one question about a piece of work and returns a `Verdict` or a `JudgeFailure`, never a bare
number. This package holds what that takes: sandboxed prompts, scales with their wording and their JSON schema, one
extractor from reply to verdict, model clients, limits, and a store of requests. In a tree a judge is a leaf.

It is empty in this release; the next one brings it.
"""
