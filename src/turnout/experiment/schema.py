"""JSON schemas, made from annotations: those of the records that configurations become, and those of results."""

import dataclasses
import types
import typing
from typing import Any

import annotated_types as at
import numpy as np
from jaxtyping import AbstractArray

from turnout.core.algorithm import Algorithm
from turnout.experiment.config import GROUPS, KNOWN, NEEDED, RECORDS, records_in
from turnout.experiment.experiment import RunSpec
from turnout.experiment.groups_spec import GroupsSpec
from turnout.experiment.kinds import Kinds
from turnout.experiment.registry import TABLES, UNUSED
from turnout.solvers import AsCohortSolver

DIALECT = "https://json-schema.org/draft/2020-12/schema"

BOUNDS = {
    at.Gt: ("exclusiveMinimum", "gt"),
    at.Ge: ("minimum", "ge"),
    at.Lt: ("exclusiveMaximum", "lt"),
    at.Le: ("maximum", "le"),
}

SIMPLE: dict[Any, dict] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    list: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
}


def schema() -> dict[str, Any]:
    """Return the schema, for the tables of a TOML file as JSON: what a configuration may hold, and what it must.

    What several fields decide together, such as a cohort that is larger than the federation, is checked when it is read.
    """
    run = _record(RunSpec)
    run["properties"]["aggregation"]["anyOf"].append({"enum": [*TABLES["aggregation"]]})
    groups = _record(GroupsSpec)
    groups["properties"] |= {name: _record(cls) for name, cls in GROUPS.items()}
    tables = {name: {"$ref": f"#/$defs/{name}"} for name in ("problem", "split", "sampler", "algorithm")}
    tables |= {name: _record(cls) for name, cls in RECORDS.items()}
    tables |= {"run": run, "groups": groups, "sweep": {"type": "object"}, "name": {"type": "string", "minLength": 1}}
    return {
        "$schema": DIALECT,
        "title": "Configuration of turnout",
        "type": "object",
        "properties": {name: tables.get(name, {"type": "array", "items": {"$ref": "#/$defs/price"}}) for name in KNOWN},
        "required": [*NEEDED],
        "additionalProperties": False,
        "$defs": {table.replace(" ", "-"): _kinds(table, kinds) for table, kinds in TABLES.items()},
    }


def schema_of(facts: Any) -> dict[str, Any]:
    """Return the schema of what is written to a file.

    Args:
        facts: Its type, a `TypedDict`.
    """
    import pydantic

    return {"$schema": DIALECT, **pydantic.TypeAdapter(facts).json_schema(mode="serialization")}


def _kinds(table: str, kinds: Kinds) -> dict[str, Any]:
    """Return the schema of a table with a kind: its name alone, a table with fields, or a class of the user's own."""
    own = {"type": "string", "pattern": ":"}
    table_of_kind = {
        "type": "object",
        "properties": {"kind": {"anyOf": [{"enum": [*kinds]}, own]}},
        "required": ["kind"],
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind}}}, "then": _kind(table, kind, cls)} for kind, cls in kinds.items()
        ],
    }
    return {"anyOf": [{"enum": [*kinds]}, own, table_of_kind]}


def _kind(table: str, kind: str, cls: type) -> dict[str, Any]:
    """Return the schema of a table whose kind is `kind`; the sampler of an algorithm has a table of its own."""
    as_solver = table == "solver" and issubclass(cls, Algorithm)
    made = _record(cls, UNUSED if as_solver else ("sampler",) if table == "algorithm" else ())
    if as_solver:
        hints = typing.get_type_hints(AsCohortSolver, include_extras=True)
        made["properties"] |= {name: _value(hints[name]) for name in ("smoothness", "convexity")}
    made["properties"]["kind"] = {"const": kind}
    return made


def _record(cls: type, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of the table of a record, whose fields are the keys."""
    hints, parts = typing.get_type_hints(cls, include_extras=True), records_in(cls)
    fields = [field for field in dataclasses.fields(cls) if field.repr and field.name not in (*without, "kind")]
    properties, required = {}, []
    for field in fields:
        values = _value(hints[field.name])
        if field.name in parts:
            table, optional, several, _ = parts[field.name]
            of = {"$ref": f"#/$defs/{table.replace(' ', '-')}"}
            of = {"type": "array", "items": of, "minItems": 1} if several else of
            values = {"anyOf": [of, values]} if optional and values else of
        properties[field.name] = values
        if field.default is field.default_factory is dataclasses.MISSING:
            required.append(field.name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _value(hint: Any) -> dict[str, Any]:
    """Return the schema of the values that an annotation allows in a file; {} allows all."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(hint, "__metadata__"):
        bounds = [(*BOUNDS[type(bound)], bound) for bound in hint.__metadata__]
        return _value(hint.__origin__) | {name: getattr(bound, field) for name, field, bound in bounds}
    if origin in (typing.Union, types.UnionType):
        members = [_value(member) for member in arguments if _in_files(member)]
        return {"anyOf": members} if len(members) > 1 else (members or [{}])[0]
    if origin is typing.Literal:
        return {"enum": [*arguments]}
    if origin in (list, tuple) and arguments:
        return {"type": "array", "items": _value(arguments[0])}
    if _is_array(hint):
        return SIMPLE[list]
    return SIMPLE.get(origin or hint, {})


def _in_files(hint: Any) -> bool:
    """Return whether a member of a union has values that a file can hold; records have a table of their own."""
    return hasattr(hint, "__metadata__") or typing.get_origin(hint) is not None or hint in SIMPLE or _is_array(hint)


def _is_array(hint: Any) -> bool:
    return hint is np.ndarray or (isinstance(hint, type) and issubclass(hint, AbstractArray))
