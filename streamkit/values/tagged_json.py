"""A union of tagged structs as lines of JSON: values of any origin are written, and what is newer is read.

Everything is done by the structs' fields, so a new struct of the union needs nothing here. The module must not depend
on what the structs are.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, get_args

import msgspec

from streamkit.values.json_data import object_fields, to_json_data

__all__ = ["TaggedJson"]

_DEEPEST = 300  # more than the nesting of a frame that is read


class TaggedJson:
    """The JSON form of a union of structs whose tag is the field ``type``.

    Args:
        union: the union.
        plain: the structs without values of other origin, which are encoded as they are. The others are converted
            first: right for every struct, and slower.
        replaced: by struct, the fields that are not written, with the values that stand for them.
        dropped: by type of a value inside a struct, the fields that are not written at all.
    """

    def __init__(
        self,
        union: Any,
        *,
        plain: Container[type],
        replaced: Mapping[type, dict[str, Any]],
        dropped: Mapping[type, tuple[str, ...]],
    ) -> None:
        self._union = union
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(union)
        self._types = frozenset(kind.__struct_config__.tag for kind in get_args(union))
        self._plain = plain
        self._replaced = replaced
        self._dropped = dropped

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
        fields = object_fields(value)
        for kind, names in self._dropped.items():
            if isinstance(value, kind):
                for name in names:
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
