"""Hosts and trainers, one file each, the only places that import them; each is an extra, as in `rubrics[openenv]`."""
