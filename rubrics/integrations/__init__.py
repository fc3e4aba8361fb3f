"""Hosts, trainers and evaluators, the only places that import them; each is an extra, as in `rubrics[openenv]`."""
