"""JSON Schemas from type hints: what a function says it returns, in the form that :mod:`credence_trust.values` gives it.

A hint that says nothing of the form, or that is not understood, is ``{}``: anything. A class inside itself is any object there.

>>> of_hint(Optional[list[int]])
{'anyOf': [{'type': 'array', 'items': {'type': 'integer'}}, {'type': 'null'}]}
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, Literal, Optional, Union, get_args, get_origin
from uuid import UUID

__all__ = ["of_hint", "of_return"]

_MAX_DEPTH = 12
_MAX_SCHEMAS = 2000
"""Schemas in one: models that use each other many times over say less below it."""
_TEXT = {"type": "string"}
# A number that is not finite is written as a text.
_FLOAT: dict[str, Any] = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}


def of_return(function: Callable[..., Any]) -> Optional[dict[str, Any]]:
    """The schema of what a function returns; ``None`` where its hints do not tell."""
    target = inspect.unwrap(function)
    target = getattr(target, "__func__", target)
    # `@contextmanager` and its like: the hints are those of the generator inside, not of what is returned.
    if _is_generator(target) and not _is_generator(getattr(function, "__func__", function)):
        return None
    try:
        hint = typing.get_type_hints(target, include_extras=True).get("return", Any)
    except Exception:  # noqa: BLE001 - a hint that cannot be evaluated says nothing
        return None
    if _is_generator(target):
        given = get_args(hint)
        hint = list[given[0]] if given else Any  # type: ignore[valid-type]
    schema = of_hint(hint)
    return schema or None


def of_hint(hint: Any) -> dict[str, Any]:
    """The schema of values of a type. A class inside itself is any object there."""
    return _Reader().of_hint(hint, 0)


def _is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


class _Reader:
    def __init__(self) -> None:
        self.inside: list[type] = []
        self.made = 0

    def of_hint(self, hint: Any, depth: int) -> dict[str, Any]:
        self.made += 1
        if self.made > _MAX_SCHEMAS:
            return {}
        if depth > _MAX_DEPTH or hint is Any or hint is object or isinstance(hint, (str, typing.TypeVar, typing.ForwardRef)):
            return {}
        if hint is None or hint is type(None):
            return {"type": "null"}
        origin, given = get_origin(hint), get_args(hint)
        below = depth + 1
        if origin is typing.Annotated:
            return self.of_hint(given[0], below)
        if origin in (Union, getattr(types, "UnionType", Union)):
            return _any_of([self.of_hint(one, below) for one in given])
        if origin is Literal:
            return _any_of([_of_constant(one) for one in given])
        kind = origin or hint
        if not isinstance(kind, type):
            return {}
        return self._of_class(hint, kind, given, below)

    def _of_class(self, hint: Any, kind: type, given: tuple[Any, ...], depth: int) -> dict[str, Any]:
        if issubclass(kind, Enum):
            return _any_of([_of_constant(member.value) for member in kind])
        if kind is bool:
            return {"type": "boolean"}
        if issubclass(kind, int):
            # Above 4,300 digits an integer is a text; nobody means that.
            return {"type": "integer"}
        if issubclass(kind, (float, timedelta)):
            return _FLOAT
        texts = (str, bytes, bytearray, memoryview, datetime, date, time, Decimal, Fraction, complex, UUID, PurePath)
        if issubclass(kind, texts):
            return dict(_TEXT)
        fields = self._fields(hint, kind, depth)
        if fields is not None:
            return fields
        if issubclass(kind, tuple):
            items = [self.of_hint(given[0], depth)] if len(given) == 2 and given[1] is Ellipsis else []
            return {"type": "array", "items": items[0]} if items and items[0] else {"type": "array"}
        if issubclass(kind, (Mapping, dict)):
            values = self.of_hint(given[1], depth) if len(given) == 2 else {}
            return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
        if issubclass(kind, (list, AbstractSet, Sequence)):
            values = self.of_hint(given[0], depth) if given else {}
            return {"type": "array", "items": values} if values else {"type": "array"}
        return {}

    def _fields(self, hint: Any, kind: type, depth: int) -> Optional[dict[str, Any]]:
        """The schema of an object whose class says which fields it has."""
        is_typed_dict = typing.is_typeddict(hint) if sys.version_info >= (3, 10) else hasattr(hint, "__total__")
        model_fields = getattr(kind, "model_fields", None)
        is_model = isinstance(model_fields, dict) and hasattr(kind, "model_dump")
        if not (is_typed_dict or is_model or dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")):
            return None
        if kind in self.inside:
            return {"type": "object"}
        self.inside.append(kind)
        try:
            if is_typed_dict:
                fields = {name: _without_marks(one) for name, one in _hints(kind).items()}
                required: list[str] = sorted(getattr(kind, "__required_keys__", ()))
            else:
                if is_model:
                    fields = {name: field.annotation for name, field in (model_fields or {}).items()}
                else:
                    hints = _hints(kind)
                    listed: Any = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else kind.__attrs_attrs__  # type: ignore[attr-defined]
                    fields = {field.name: hints.get(field.name, Any) for field in listed}
                required = list(fields)
            return _object({name: self.of_hint(one, depth) for name, one in fields.items()}, required)
        finally:
            self.inside.pop()


def _object(fields: dict[str, dict[str, Any]], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": required}


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    return {} if not all(schemas) else schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _of_constant(value: Any) -> dict[str, Any]:
    if isinstance(value, Enum):
        value = value.value
    plain = value is None or isinstance(value, (str, int, float, bool))
    return {"const": value} if plain else {}


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - a hint that cannot be evaluated says nothing
        return {}


def _without_marks(hint: Any) -> Any:
    """A field of a ``TypedDict`` without ``Required`` or ``NotRequired``."""
    origin = get_origin(hint)
    named = getattr(origin, "_name", None) or getattr(origin, "__name__", None)
    return get_args(hint)[0] if named in ("Required", "NotRequired", "ReadOnly") else hint
