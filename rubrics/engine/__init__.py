"""How trees are run. Nothing here is public; `Rubric` and `Episode` are the way in.

A tree is compiled once per change of its structure (`plan`) into closures with one signature,
`(action, observation, last) -> outcome`, where `last` is the run's list of outcomes by node. A node's closure is what
its kind does (leaf, container, custom forward, delayed), wrapped, where needed, in hooks, a recorder and a memo, so
each of these is written once a driver: `sync`, `concurrent` and, for recorded outcomes, `replay`. The rule of a
container is the container's own (`stop` and `combine`), and all three share it.

`frames` holds what a running node can ask for, `journal` what nodes keep during an episode, `turn` lets steps of one
episode wait for each other, `progress` takes its steps and undoes one that failed, `quick` is the shortest way through
a step. `loop` is the library's own
event loop and worker threads, `running` single runs outside any episode.
"""
