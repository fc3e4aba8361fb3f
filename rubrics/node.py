"""`Node`: what makes a tree out of objects with attributes. Children, hooks, state dicts, printing, copying."""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from rubrics.score import StateError, StructureError

if TYPE_CHECKING:
    from rubrics.rubric import Rubric

Hook = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])
_hook_keys = itertools.count()


class HookHandle:
    """What registering a hook returns; `remove()` takes the hook away."""

    def __init__(self, node: Node, hooks: dict[int, Hook], key: int) -> None:
        self._node, self._hooks, self._key = node, hooks, key

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        if self._hooks.pop(self._key, None) is not None:
            self._node._changed()


class Node:
    """The tree half of `Rubric`, with the habits of `nn.Module`."""

    state_fields: ClassVar[tuple[str, ...]] = ()
    """Attributes that `state_dict` holds, in the order in which they are loaded; their setters validate."""

    if TYPE_CHECKING:
        _rubric_children: dict[str, Rubric]
        _forward_hooks: dict[int, Hook]
        _forward_pre_hooks: dict[int, Hook]
        _parents: list[weakref.ref[Node]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        load = cls.__dict__.get("load_state_dict")
        if load is not None and not is_ours(load):
            setattr(cls, "load_state_dict", _load_override(load))  # noqa: B010

    def __init__(self) -> None:
        if not is_initialised(self):
            self._set(**_fresh())

    def _set(self, /, **values: Any) -> None:
        """Set attributes of the base class. (Not by way of `__dict__`, which would make every later access slower.)"""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in _INTERNAL:
            raise StructureError(f"{type(self).__name__}.__init__ must call super().__init__() before anything else")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _changed(self) -> None:
        """The structure changed, here or below."""
        raise NotImplementedError

    # -- children -----------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Node):
            for base in type(self).__mro__:
                if name in vars(base):
                    if base.__module__.startswith("rubrics."):
                        who = type(self).__name__
                        raise StructureError(f"child name {name!r} would hide {who}.{name}; choose another name")
                    if hasattr(type(vars(base)[name]), "__set__"):  # a property, which stores the child itself
                        object.__setattr__(self, name, value)
                        return
                    break
            self._register(name, cast("Rubric", value))
            object.__setattr__(self, name, value)
            return
        children: Any = self._rubric_children if is_initialised(self) else ()
        if name in children and self.__dict__.get(name) is children[name]:
            self._unregister(name)
        elif name == "forward" or name == "is_async":
            self._changed()
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if is_initialised(self) and name in self._rubric_children:
            self._unregister(name)
        else:
            object.__delattr__(self, name)

    def _add_child(self, name: str, child: Rubric) -> None:
        """Register a child of a container. It is an attribute too, unless the container has one of that name itself."""
        attribute = self.__dict__.get(name) is self._rubric_children.get(name)
        self._register(name, child)
        if attribute and not any(name in vars(base) for base in type(self).__mro__):
            self.__dict__[name] = child

    def _register(self, name: str, child: Rubric) -> None:
        who = type(self).__name__
        if not is_initialised(self):
            raise StructureError(f"{who}.__init__ must call super().__init__() before it assigns child {name!r}")
        if not is_initialised(child):
            raise StructureError(f"{type(child).__name__}.__init__ must call super().__init__() before anything else")
        if not isinstance(name, str) or not name or "." in name:
            raise StructureError(f"{who}: a child's name is a non-empty string without a dot, not {name!r}")
        taken = inspect.getattr_static(type(self), name, None)
        if name in _INTERNAL or callable(taken) or isinstance(taken, classmethod):
            raise StructureError(f"{who}: child name {name!r} would hide {who}.{name}; choose another name")
        if self._is_below(child):
            raise StructureError(f"{who}: child {name!r} contains this node; a tree has no cycles")
        before = self._rubric_children.get(name)
        self._rubric_children[name] = child
        if before is not None:
            self._forget_parent_of(before)
        child._parents[:] = [ref for ref in child._parents if ref() not in (None, self)]
        child._parents.append(weakref.ref(self))
        self._changed()

    def _unregister(self, name: str) -> None:
        child = self._rubric_children.pop(name)
        if self.__dict__.get(name) is child:
            del self.__dict__[name]
        self._forget_parent_of(child)
        self._changed()

    def _forget_parent_of(self, child: Rubric) -> None:
        """Drop the link up from a node that is no child of this one any more, and links to parents that are gone."""
        still = any(other is child for other in self._rubric_children.values())
        child._parents[:] = [
            ref for ref in child._parents if (parent := ref()) is not None and (still or parent is not self)
        ]

    def _is_below(self, other: Node) -> bool:
        """Whether this node is the other or below it."""
        if other is self:
            return True
        return any((parent := ref()) is not None and parent._is_below(other) for ref in self._parents)

    def children(self) -> Iterator[Rubric]:
        """Immediate children."""
        yield from self._rubric_children.values()

    def named_children(self) -> Iterator[tuple[str, Rubric]]:
        """Immediate children with their names."""
        yield from self._rubric_children.items()

    def rubrics(self) -> Iterator[Rubric]:
        """All nodes below, depth first."""
        for _, node in self.named_rubrics():
            yield node

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, Rubric]]:
        """All nodes below with their dotted paths, depth first."""
        for name, child in self._rubric_children.items():
            path = f"{prefix}.{name}" if prefix else name
            yield path, child
            yield from child.named_rubrics(path)

    def get_rubric(self, path: str) -> Rubric:
        """The node at a dotted path, such as `"code.style"`.

        Raises:
            KeyError: there is none; the message names the part that is missing and what there is.
        """
        node = cast("Rubric", self)
        for part in path.split("."):
            child = node._rubric_children.get(part)
            if child is None:
                known = ", ".join(map(repr, node._rubric_children)) or "none"
                raise KeyError(
                    f"no rubric {path!r}: {type(node).__name__} has no child {part!r}; its children: {known}"
                )
            node = child
        return node

    # -- hooks --------------------------------------------------------------------------------------------------------

    def register_forward_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(rubric, action, observation, score)` after each evaluation of this node.

        What it returns is ignored. An async hook makes the node async.
        """
        return self._add_hook(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(rubric, action, observation)` before each evaluation of this node and of any child of it."""
        return self._add_hook(self._forward_pre_hooks, hook)

    def _add_hook(self, hooks: dict[int, Hook], hook: Hook) -> HookHandle:
        if not callable(hook):
            raise TypeError(f"a hook is a function, not {hook!r}")
        key = next(_hook_keys)
        hooks[key] = hook
        self._changed()
        return HookHandle(self, hooks, key)

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The configuration of this node and, under dotted keys, of those below it. No trajectories."""
        state = {name: getattr(self, name) for name in self.state_fields}
        for name, child in self._rubric_children.items():
            state.update({f"{name}.{key}": value for key, value in child.state_dict().items()})
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what `state_dict` gave; keys may be left out.

        Raises:
            StateError: unknown keys or invalid values. Nothing was changed then.
        """
        with _Loading(self):
            self._load(state)

    def _load(self, state: dict[str, Any]) -> None:
        known = self.state_dict()
        unknown = sorted(set(state) - set(known))
        if unknown:
            raise StateError(
                f"{type(self).__name__}: unknown keys {', '.join(map(repr, unknown))}; "
                f"known are {', '.join(map(repr, known)) or 'none'}"
            )
        for name in self.state_fields:
            if name in state:
                setattr(self, name, state[name])
        for name, child in self._rubric_children.items():
            prefix = f"{name}."
            part = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}
            if part:
                try:
                    child.load_state_dict(part)
                except StateError as error:
                    raise StateError(f"{name}: {error}") from error

    # -- printing and copying -----------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What the printed tree says in this node's parentheses."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.state_fields)

    def __repr__(self) -> str:
        if not is_initialised(self):
            return f"<{type(self).__name__}, without super().__init__()>"
        lines = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self._rubric_children.items()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ")" if not lines else head + "\n  " + "\n  ".join(lines) + "\n)"

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle takes along: no running episode, nothing compiled."""
        return {name: value for name, value in self.__dict__.items() if name in _COPIED or name not in _INTERNAL}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**_fresh())
        self._set(**state)
        self._set(**{name: dict(state[name]) for name in _COPIED})
        for child in self._rubric_children.values():  # a shallow copy shares it with parents that are gone by now
            child._parents[:] = [*(ref for ref in child._parents if ref() is not None), weakref.ref(self)]


def _fresh() -> dict[str, Any]:
    """The attributes of the base class, as a node begins with them."""
    return {
        "_rubric_children": {},
        "_forward_hooks": {},
        "_forward_pre_hooks": {},
        "_plan": None,
        "_call": None,
        "_previous": None,
        "_parents": [],
        "_homes": [],
        "_default": None,
        "_owner": None,
    }


_INTERNAL = frozenset(_fresh())
_COPIED = ("_rubric_children", "_forward_hooks", "_forward_pre_hooks")  # what a copy takes along of them


class _Loading:
    """A load that fails puts every node below back as it was, whichever override failed."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.before = [(each, dict(each.__dict__)) for each in (node, *node.rubrics())]

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        for node, values in self.before:
            node.__dict__.clear()
            node.__dict__.update(values)
            node._changed()
        if isinstance(error, Exception) and not isinstance(error, StateError):
            who = type(self.node).__name__
            raise StateError(str(error) if str(error).startswith(f"{who}:") else f"{who}: {error}") from error


def _load_override(function: F) -> F:
    @functools.wraps(function)
    def load_state_dict(self: Rubric, state: dict[str, Any]) -> None:
        with _Loading(self):
            function(self, state)

    return cast("F", load_state_dict)


def is_initialised(node: Node) -> bool:
    """Whether `Rubric.__init__` ran."""
    try:
        object.__getattribute__(node, "_rubric_children")
    except AttributeError:
        return False
    return True


def has_class_forward(node: Any) -> bool:
    """Whether the node's `forward` is that of its class, and not one set on the object."""
    return getattr(node.forward, "__func__", None) is type(node).forward


def definer(cls: type, name: str) -> type:
    """The class in the method resolution order that defines a name."""
    return next(base for base in cls.__mro__ if name in base.__dict__)


def is_ours(function: Any) -> bool:
    """Whether a class or function is one of this package."""
    return str(getattr(function, "__module__", "")).partition(".")[0] == "rubrics"
