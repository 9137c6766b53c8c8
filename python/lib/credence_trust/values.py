"""The JSON form of Python values.

Receipts commit to values, and the engine judges them, in this form. A form is stable: equal values have equal forms, in every process. (The
form of an opaque value is as stable as its ``repr``.)

=============================================  ==========================================================================
value                                          form
=============================================  ==========================================================================
``None``, ``bool``, ``str``                    ``null``, ``true``/``false``, text (half a surrogate pair: its bytes as U+FFFD)
``int``                                        all digits; above 4,300 digits the text ``0x…``
``float``                                      the number; the texts ``NaN``, ``Infinity``, ``-Infinity``
``dict``, any ``Mapping``                      object; a name that is not a text is the JSON of its form
``list``, ``tuple``, ``range``, ``deque``      list; a ``range`` above 100,000 numbers is ``{"type", "start", "stop", "step"}``
``set``, ``frozenset``                         list, sorted by the forms of its members
dataclass, attrs class, pydantic model         object of its fields
``Enum``                                       its value
``datetime``, ``date``, ``time``               ISO 8601 text
``timedelta``                                  seconds, a number
``Decimal``, ``Fraction``, ``complex``         text, as ``str`` writes it
``UUID``, ``PurePath``                         text
``bytes``, ``bytearray``, ``memoryview``       base64 text
exception                                      ``{"type": …, "message": …}``
numpy scalar, array                            the number; nested lists. Above 100,000 elements: type, shape and digest of its bytes
pandas ``Series``, ``DataFrame``               ``{"index", "name", "data"}``, ``{"index", "columns", "data"}``; missing values are ``null``.
                                               Above 100,000 cells: type, shape, columns and a digest for the index and each column
anything else                                  ``{"type": …, "repr_sha256": …}``: such a value is *opaque*, and the receipt says so
=============================================  ==========================================================================

Values that cannot be written out are opaque too:

=============================================  ==========================================================================
a container inside itself                      ``{"type": …, "cycle": n}``: the n-th container around it
more than 60 levels deep                       ``{"type": …, "sha256": …}``: the digest of its form; 300 levels are looked into
more than 1,000,000 parts                      ``{"type": …, "first_parts": 1000000, "sha256": …}`` in place of the whole value. A part is a value or
                                               64 bytes of text; an object that is not of a type of Python itself counts as 20
=============================================  ==========================================================================

A class can give its own form with a method ``__credence__`` that returns a value of the types above.

>>> simplify(Decimal("1.10")), simplify(timedelta(minutes=1.5))
('1.10', 90.0)
>>> from credence_trust._native import canonical_form
>>> canonical_form({"at": date(2026, 1, 2), "tags": {"b", "a"}})
('{"at":"2026-01-02","tags":["a","b"]}', False)
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import itertools
import json
import re
import sys
from collections import deque
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

__all__ = ["digest", "digits", "members", "opaque", "simplify", "type_name"]

MAX_ARRAY = 100_000
"""Elements of an array that are written out."""
MAX_MAPPING = 1_000_000
"""Members of a mapping that is not a dictionary which are looked at: one may have no end."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def simplify(value: Any) -> Any:
    """The value in simpler types; the value itself where it has no form."""
    own = getattr(type(value), "__credence__", None)
    if own is not None:
        return own(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime, date, time)):
        # pandas' NaT is a datetime that has no date.
        return value.isoformat() if value == value else None
    if isinstance(value, timedelta):
        return value.total_seconds() if value == value else None
    if isinstance(value, (Decimal, Fraction, complex, UUID, PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, BaseException):
        return {"type": type(value).__name__, "message": str(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, range) and len(value) > MAX_ARRAY:
        return {"type": "range", "start": value.start, "stop": value.stop, "step": value.step}
    if isinstance(value, (range, deque)):
        return list(value)
    return _of_library(value)


def _of_library(value: Any) -> Any:
    """Values of libraries, none of which is imported here: a value of one can only exist once it was imported."""
    kind = type(value)
    if "pydantic" in sys.modules:
        from pydantic import BaseModel

        if isinstance(value, BaseModel):
            fields = {name: getattr(value, name) for name in kind.model_fields}
            return {**fields, **(value.model_extra or {})}
    if "numpy" in sys.modules:
        import numpy

        if isinstance(value, numpy.generic):
            item = value.item()
            # A number that is longer than Python's stays one of numpy.
            return str(item) if isinstance(item, numpy.generic) else item
        if isinstance(value, numpy.ndarray):
            if value.size <= MAX_ARRAY or not _has_plain_bytes(value.dtype):
                return value.tolist()
            return {"type": f"numpy.ndarray[{value.dtype}]", "shape": list(value.shape), "sha256": _digest_of_array(value)}
    if "pandas" in sys.modules:
        import pandas

        if value is pandas.NA or value is pandas.NaT:
            return None
        if isinstance(value, pandas.Series):
            if value.size > MAX_ARRAY:
                digests = {"index_sha256": _digest_of_column(value.index), "sha256": _digest_of_column(value)}
                return {"type": f"pandas.Series[{value.dtype}]", "shape": list(value.shape), "name": value.name, **digests}
            return {"index": value.index.tolist(), "name": value.name, "data": _present(value.tolist())}
        if isinstance(value, pandas.DataFrame):
            columns = value.columns.tolist()
            if value.size > MAX_ARRAY or len(value) > MAX_ARRAY:
                digests = {"index_sha256": _digest_of_column(value.index)}
                cells = [_digest_of_column(value.iloc[:, n]) for n in range(len(columns))]
                return {"type": "pandas.DataFrame", "shape": list(value.shape), "columns": columns, "sha256": cells, **digests}
            data = [_present(row) for row in value.itertuples(index=False, name=None)]
            return {"index": value.index.tolist(), "columns": columns, "data": data}
        if isinstance(value, pandas.Index):
            if value.size > MAX_ARRAY:
                return {"type": f"pandas.Index[{value.dtype}]", "shape": list(value.shape), "sha256": _digest_of_column(value)}
            return value.tolist()
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in kind.__attrs_attrs__}
    if isinstance(value, Mapping):
        return {name: value[name] for name in itertools.islice(value, MAX_MAPPING)}
    return value


def _has_plain_bytes(dtype: Any) -> bool:
    """Whether equal elements have equal bytes: neither pointers, nor padding between fields or inside long numbers."""
    return dtype.kind in "biuSUmM" or (dtype.kind == "f" and dtype.itemsize <= 8) or (dtype.kind == "c" and dtype.itemsize <= 16)


def _digest_of_array(array: Any) -> str:
    import numpy

    return hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()


def _digest_of_column(column: Any) -> str:
    """Of a column's bytes, or of its JSON where it has objects."""
    import numpy

    if isinstance(column.dtype, numpy.dtype) and _has_plain_bytes(column.dtype):
        return _digest_of_array(column.to_numpy())
    return digest(json.dumps(_present(column.tolist()), default=_form))


def _form(value: Any) -> str:
    from ._native import canonical_form

    return canonical_form(value)[0]


def _present(values: Any) -> list[Any]:
    """Missing values, which pandas writes as a number that is not one, as ``None``."""
    return [None if isinstance(value, float) and value != value else value for value in values]


def opaque(value: Any) -> tuple[str, str]:
    """The type's name and the SHA-256 of the ``repr``, without addresses in memory; the digest is empty where ``repr`` fails."""
    name = type_name(value)
    try:
        return name, digest(_ADDRESS.sub("", repr(value)))
    except Exception:  # noqa: BLE001 - whatever a strange value raises is not the caller's business
        return name, ""


def type_name(value: Any) -> str:
    """The name of a value's type, with its module."""
    kind = type(value)
    return f"{getattr(kind, '__module__', '?')}.{getattr(kind, '__qualname__', '?')}"


def digest(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def members(value: Any) -> tuple[Any, ...]:
    """The members of a set, whatever its class says of itself. No other Python code runs meanwhile, so that it does not change."""
    return tuple(set.__iter__(value) if issubclass(type(value), set) else frozenset.__iter__(value))


def digits(number: int) -> str:
    """The digits of an integer, whatever its class says of itself; in hexadecimal where Python refuses so many decimal ones."""
    plain = int.__index__(number)
    try:
        return int.__repr__(plain)
    except ValueError:
        return hex(plain)
