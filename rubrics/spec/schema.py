"""The JSON Schema of files of rubrics, for editors."""

from __future__ import annotations

from typing import Any

from rubrics.spec.kinds import OURS, Kind, kind_named, registered


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a file: a node of any registered kind, told apart by `kind`, or one of a class of one's
    own, whose arguments are checked when the file is loaded."""
    defs: dict[str, Any] = {}
    for family in OURS:
        names = registered(family)
        for name in names:
            _describe(name, family, defs)
        options: list[dict[str, Any]] = [{"$ref": f"#/$defs/{name}"} for name in names]
        if family == "node":
            options += [{"$ref": "#/$defs/$ref"}, {"$ref": "#/$defs/module:Class"}]
        else:
            options.append({"enum": [name for name in names if defs[name]["required"] == ["kind"]]})
        defs[family] = {"oneOf": options}
    defs["$ref"] = {
        "type": "object",
        "properties": {"$ref": {"type": "string", "description": "the $id of a node above"}},
        "required": ["$ref"],
        "additionalProperties": False,
    }
    defs["module:Class"] = {
        "type": "object",
        "properties": {"kind": {"type": "string", "pattern": "^[^:]+:[^:]+$"}},
        "required": ["kind"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A rubric",
        "type": "object",
        "$ref": "#/$defs/node",
        "$defs": defs,
    }


def _describe(name: str, family: str, defs: dict[str, Any]) -> None:
    kind = kind_named(name, family)
    assert kind is not None
    described = _referring(kind.adapter.json_schema())
    defs |= described.pop("$defs", {})
    properties = {"kind": {"const": name}, **described.get("properties", {})}
    if family == "node":
        properties["$id"] = {
            "type": "string",
            "minLength": 1,
            "description": "a name by which other places refer to this node",
        }
        properties["$schema"] = {"description": "where an editor finds this schema"}
    defs[name] = {
        "type": "object",
        "description": _summary(kind),
        "properties": properties,
        "required": ["kind", *described.get("required", [])],
        "additionalProperties": False,
    }


def _referring(schema: Any) -> Any:
    """A schema whose references to definitions of the file's parts, which pydantic would look for, are in place."""
    if isinstance(schema, list):
        return [_referring(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$comment" in schema:
        return {"$ref": f"#/$defs/{schema['$comment']}"}
    return {key: _referring(item) for key, item in schema.items()}


def _summary(kind: Kind) -> str:
    return (kind.cls.__doc__ or "").partition("\n\n")[0].replace("\n", " ").strip()
