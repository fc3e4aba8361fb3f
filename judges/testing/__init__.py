"""Judge prompts, tested like code: golden sets, and statistics with their uncertainty (`judges.testing.metrics`)."""
