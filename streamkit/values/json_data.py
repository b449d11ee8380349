"""JSON data from any value, copies of models with other values, and tagged structs as lines of JSON.

A store, a provider's request and a JSON parser accept less than Python does: no NaN, no integer of more than 4300
digits (Python's own limit for text), no bytes or sets, no object that contains itself, and no nesting that a reader
refuses. ``to_json_data`` converts such values and returns all other data unchanged. ``TaggedJson`` writes values of any
origin by the fields of their structs, so a new struct of its union needs nothing here, and reads what is newer.

It must not depend on anything that has values to convert: history and events pass their own rules for objects. It must
not import pydantic, so that code that needs no models does not load it.
"""

from __future__ import annotations

import json
import math
from binascii import b2a_base64
from collections.abc import Callable, Container, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import msgspec

if TYPE_CHECKING:
    from pydantic import BaseModel

    AnyModel = TypeVar("AnyModel", bound=BaseModel)

__all__ = [
    "Convert",
    "TaggedJson",
    "bytes_as_text",
    "copy_json",
    "copy_with",
    "describe_object",
    "is_plain_json",
    "json_excerpt",
    "object_fields",
    "safe_text",
    "to_json_data",
]

#: Returns data for an object that is neither text, number, dict nor list.
Convert = Callable[[Any], Any]

_TOO_DEEP = "[nested too deeply]"

_CYCLE = "[the object that contains this]"

#: ``sys.set_int_max_str_digits`` limits texts to 4300 digits by default; readers of JSON have the same limit.
_BITS_OF_LONGEST_INTEGER = 14_280

#: An integer with more bits (50,000 digits) is described: the time for its text grows with the square of its length.
_BITS_OF_LONGEST_TEXT = 166_097


def to_json_data(value: Any, convert: Convert, *, deepest: int, read_text: Callable[[str], str] | None = None) -> Any:
    """Return a value as JSON data; the same object if it is that already.

    NaN and the infinities become their names, integers of more than 4300 digits their digits as text, keys text,
    tuples lists. What is nested too deeply becomes its JSON text. An object inside itself is replaced by a text that
    states this.

    Args:
        value: any value.
        convert: for all other objects. What it raises is raised; an object that it returns unchanged becomes its text.
        deepest: the number of levels of lists and dicts.
        read_text: applied to every text; default: texts stay unchanged.
    """
    return _Conversion(convert, deepest, read_text).data(value)


_PLAIN: Final = frozenset({str, int, bool, type(None)})


def copy_json(value: Any) -> Any:
    """Return a copy of JSON data with containers of its own; any other object in it is not copied.

    It is recursive and takes one frame a level: arguments are at most 256 levels deep.
    """
    if isinstance(value, dict):
        fields = dict(value)
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                fields[name] = copy_json(item)
        return fields
    if isinstance(value, list):
        return [copy_json(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def is_plain_json(value: Any) -> bool:
    """Return True for an object or a list of texts, finite numbers, true, false, null, and more of these.

    It is a cheap first look: any other value may be JSON data, too.
    """
    left = [value]
    for each in left:
        if each.__class__ is dict:
            for name, item in each.items():
                if name.__class__ is not str:
                    return False
                if item.__class__ not in _PLAIN:
                    left.append(item)
        elif each.__class__ is list:
            left += [item for item in each if item.__class__ not in _PLAIN]
        elif each.__class__ is not float or not math.isfinite(each):
            return False
    return True


class _Conversion:
    """The conversion of one value."""

    __slots__ = ("_convert", "_deepest", "_parents", "_read_text")

    def __init__(self, convert: Convert, deepest: int, read_text: Callable[[str], str] | None) -> None:
        self._convert = convert
        self._deepest = deepest
        self._read_text = read_text
        self._parents: list[int] = []  # the identities of the objects around the current value

    def data(self, value: Any) -> Any:
        """Return a value as JSON data."""
        kind = value.__class__
        if kind is str:
            return value if self._read_text is None else self._read_text(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if value.bit_length() < _BITS_OF_LONGEST_INTEGER else _integer_text(value)
        if kind is float:
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if id(value) in self._parents:
            return _CYCLE
        if len(self._parents) >= self._deepest:
            return self._deep_text(value)
        self._parents.append(id(value))
        try:
            if kind is list:
                items = [self.data(item) for item in value]
                return value if all(map(is_, items, value)) else items
            if kind is dict:
                keeps_keys = self._read_text is None
                data = {
                    (key if keeps_keys and key.__class__ is str else self._key(key)): self.data(item)
                    for key, item in value.items()
                }
                is_same = len(data) == len(value) and all(map(is_, data, value))
                return value if is_same and all(map(is_, data.values(), value.values())) else data
            return self._data_of_object(value)
        finally:
            self._parents.pop()

    def _data_of_object(self, value: Any) -> Any:
        """Return data for a value of another type than JSON's own, such as a subclass of one of these."""
        if isinstance(value, Mapping):
            return {self._key(key): self.data(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(item) for item in value]
        data = self._convert(value)
        return self.data(safe_text(value) if data is value else data)

    def _key(self, key: Any) -> str:
        data = self.data(key)
        if isinstance(data, str):
            return data
        if data is None or isinstance(data, bool):
            return {None: "None", True: "true", False: "false"}[data]  # as pydantic writes them
        return safe_text(data)

    def _deep_text(self, value: Any) -> Any:
        if not value:
            return value if isinstance(value, (list, dict)) else safe_text(value)
        import json  # rarely needed, and imported with every program

        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (RecursionError, TypeError, ValueError):
            return _TOO_DEEP
        return self.data(text)


def _integer_text(value: int) -> str:
    bits = value.bit_length()
    if bits > _BITS_OF_LONGEST_TEXT:
        return f"[an integer of about {int(bits * math.log10(2))} digits]"
    return str(Decimal(value))  # without the limit of int, and faster


def object_fields(value: Any) -> Any:
    """Return the fields of a struct, a dataclass or a model, with a struct's tag; bytes as base64, other data as text.

    An object that has none of these is returned unchanged. Nothing is raised.
    """
    if isinstance(value, msgspec.Struct):
        tag, tag_field = value.__struct_config__.tag, value.__struct_config__.tag_field
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return fields if tag is None else {tag_field: tag, **fields}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b2a_base64(bytes(value), newline=False).decode()
    if hasattr(type(value), "__dataclass_fields__"):
        from dataclasses import fields as dataclass_fields  # slow to import, and no event is a dataclass

        return {each.name: getattr(value, each.name, None) for each in dataclass_fields(value)}
    if isinstance(value, Iterator):  # reading it would take its values away
        return value
    try:
        dump = getattr(value, "model_dump", None)  # pydantic, which the core does not load
        return dump() if dump is not None else msgspec.to_builtins(value)
    except Exception:  # whatever an object's own method raises
        return value


def bytes_as_text(value: bytes) -> str:
    """Return bytes as text if they are UTF-8, else as base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b2a_base64(value, newline=False).decode()


def safe_text(value: Any) -> str:
    """Return the text of any object; its type if it has none. Nothing is raised."""
    try:
        return str(value)
    except Exception:  # a broken __str__; an integer of more than 4300 digits
        return describe_object(value)


def describe_object(value: Any) -> str:
    """Return a name for an object in a sentence, such as ``an object of the type Socket``."""
    return f"an object of the type {type(value).__name__}"


_set = object.__setattr__  # that of a model validates


def json_excerpt(value: Any) -> str:
    """Return a value as JSON of at most 80 characters, for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (RecursionError, ValueError):
        return "a value that is nested too deeply"
    return text if len(text) <= 80 else text[:77] + "..."


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


_DEEPEST = 300  # more than the nesting of a frame that is read


class TaggedJson:
    """The JSON form of a union of structs whose tag is the field ``type``.

    Args:
        union: the union.
        plain: the structs without values of other origin, which are encoded as they are. The others are converted
            first: right for every struct, and slower.
        replaced: by struct, the fields that are not written, with the values that stand for them.
        dropped: by type of the struct or of a value inside it, the fields that are not written at all.
        rewritten: by type of a value inside a struct, the function that returns what is written in its place.
        hides_exceptions: of an exception its type is written, and not its text; also of an object without a text of its
            own (``__str__``), because that of Python has the objects inside it.
    """

    def __init__(
        self,
        union: Any,
        *,
        plain: Container[type],
        replaced: Mapping[type, dict[str, Any]],
        dropped: Mapping[type, tuple[str, ...]],
        rewritten: Mapping[type, Callable[[Any], Any]] | None = None,
        hides_exceptions: bool = False,
    ) -> None:
        self._union = union
        self._types = frozenset(kind.__struct_config__.tag for kind in get_args(union))
        self._plain = plain
        self._replaced = replaced
        self._dropped = dropped
        self._rewritten = rewritten or {}
        self._hides_exceptions = hides_exceptions

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        """The decoder of the union, which takes longer to build than the module to import; few programs read lines."""
        return msgspec.json.Decoder(self._union)

    def encode(self, value: Any) -> bytes:
        """Return a struct as one line of JSON, ``type`` first; never raise for what its fields contain."""
        replaced = self._replaced.get(type(value))
        if replaced is not None:
            value = msgspec.structs.replace(value, **replaced)
        if type(value) in self._plain:
            try:
                return msgspec.json.encode(value)
            except UnicodeEncodeError:  # half of a surrogate pair, split over two events: escaped below
                pass
        data = to_json_data(value, self._fields, deepest=_DEEPEST)
        try:
            return msgspec.json.encode(data)
        except UnicodeEncodeError:
            import json  # rarely needed, and imported with every program

            return json.dumps(data, separators=(",", ":")).encode("ascii")

    def _fields(self, value: Any) -> Any:
        rewrite = self._rewritten.get(type(value))
        fields = object_fields(value if rewrite is None else rewrite(value))
        if self._hides_exceptions:
            text_of: Any = type(value).__str__
            if isinstance(value, BaseException) or (fields is value and text_of is object.__str__):
                return describe_object(value)
        for name in self._dropped.get(type(value), ()):
            del fields[name]
        return fields

    def decode(self, data: bytes | str) -> Any:
        """Return the struct of a line; the object itself, as a dict, if no struct of the union has its ``type``.

        Raises:
            msgspec.ValidationError: the JSON is no object with a ``type``, or a struct with other fields.
            ValueError: the data is not JSON.
        """
        try:
            try:
                return self._decoder.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError):  # msgspec refuses an escaped half of a surrogate pair
                import json

                plain = json.loads(data)
                kind = plain.get("type") if isinstance(plain, dict) else None
                is_newer = isinstance(kind, str) and bool(kind) and kind not in self._types
                return plain if is_newer else msgspec.convert(plain, self._union)
        except RecursionError:
            raise ValueError("the data is nested too deeply") from None
