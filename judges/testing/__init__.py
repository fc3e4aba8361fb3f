"""Judge prompts, tested like code.

- `judges.testing.golden`: golden sets, cases with the answer that people gave.
- `judges.testing.metrics`: what a judge's verdicts on them say of it, each figure with its uncertainty.
"""
