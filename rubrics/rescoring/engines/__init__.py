"""Where the trees of a run are evaluated, if not in its own process.

The run itself stays where it was started: it reads, numbers and selects trajectories, and writes rows. An engine is
given the numbered trajectories as a stream, and gives numbered rows back, each as soon as it is done.
"""
