"""A copy of a pydantic model with other values of some fields.

It must not depend on pydantic's modules, so that code that needs no models does not load them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

    AnyModel = TypeVar("AnyModel", bound=BaseModel)

__all__ = ["copy_with"]


_set = object.__setattr__  # that of a model validates


def copy_with(model: AnyModel, /, **fields: Any) -> AnyModel:
    """Return a copy of a model with other values of declared fields, which are not checked.

    It is `model_copy` without the search for further fields, in a third of its time.
    """
    copy = model.__class__.__new__(model.__class__)
    extra, private = model.__pydantic_extra__, model.__pydantic_private__
    _set(copy, "__dict__", {**model.__dict__, **fields})
    _set(copy, "__pydantic_fields_set__", {*model.__pydantic_fields_set__, *fields})
    _set(copy, "__pydantic_extra__", None if extra is None else dict(extra))
    _set(copy, "__pydantic_private__", None if private is None else dict(private))
    return copy
