"""What the models of service sets have in common: a manifest that is loaded is written back unchanged.

Unlike the objects of packages these belong to others, who read them back and compare. So a model remembers which keys
its manifest had, in which order, and which of them were null; nothing is added, dropped or reordered on the way out.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Final, Self, cast, override

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    StrictInt,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

_INT64_MAX: Final = 2**63 - 1
_LOADING: Final = object()
"""Context of validation while a manifest is read; constructors have none."""


def _int64(number: int) -> int:
    if abs(number) > _INT64_MAX:
        raise ValueError("does not fit into 64 bits")
    return number


type Int64 = Annotated[StrictInt, AfterValidator(_int64)]
"""A whole number as Kubernetes stores it; ``true`` and ``1.0`` are none."""


class Manifest(BaseModel):  # noqa: PLW1641 - pydantic hashes what is frozen
    """Part of a Kubernetes object: camelCase on the wire, snake_case in Python, unknown fields kept at every level.

    Only `from_object` takes unknown fields: they come from a manifest. Constructors refuse them, as misspelt.

    Models are immutable; `changed` makes a new one. A key that is null is the same as one that is absent, as in
    Kubernetes, and reads as the field's default. Two models are equal when they say the same: an absent field equals
    its default, and the order of keys is of no account.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,
    )

    _keys: tuple[str, ...] = ()
    """Keys in the order of the manifest, those of null fields among them."""

    _said: frozenset[str] = frozenset()
    """Python names of the fields that were set; pydantic's own set mixes them with unknown keys of the same name."""

    @classmethod
    def from_object(cls, document: Mapping[str, Any]) -> Self:
        """Read the plain JSON form of a manifest.

        Raises:
            pydantic.ValidationError: a field does not have its type; paths are those of the manifest.
        """
        return cls.model_validate(document, by_alias=True, by_name=False, context=_LOADING)

    def to_object(self) -> dict[str, Any]:
        """Return the plain JSON form: what was loaded, unchanged, and what was set since."""
        fields = _fields(type(self))
        extra = self.__pydantic_extra__ or {}
        said = {wire: name for wire, name in fields.items() if name in self._said}
        written: dict[str, Any] = {}
        for key in dict.fromkeys((*self._keys, *said, *extra)):
            if key in said:
                written[key] = _plain(getattr(self, said[key]))
            else:
                written[key] = None if key in fields else extra[key]
        return written

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values in some fields, by their Python names; a default is written as absent.

        The values are taken as they are: they come from models, not from people.
        """
        if all(getattr(self, name) == value for name, value in values.items()):
            return self
        copy = self.model_copy(update=values)
        defaults = _defaults(type(self))
        unsaid = {name for name, value in values.items() if value == defaults[name]}
        fields = _fields(type(self))
        copy._keys = tuple(key for key in self._keys if fields.get(key) not in unsaid)  # noqa: SLF001 - own
        copy._said = (self._said | values.keys()) - unsaid  # noqa: SLF001 - own
        return copy

    @model_validator(mode="wrap")
    @classmethod
    def _remember(cls, document: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if not isinstance(document, Mapping):
            return handler(document)
        fields, wires = _fields(cls), _wires(cls)
        whole = cast("Mapping[str, Any]", document)
        if info.context is not _LOADING:
            _refuse_unknown(cls, whole, {*fields, *wires})
        given = {key: value for key, value in whole.items() if value is not None or key not in fields}
        model = handler(given)
        extra = model.__pydantic_extra__ or {}
        model._keys = tuple(key if key in fields or key in extra else wires[key] for key in whole)  # noqa: SLF001 - own
        model._said = frozenset(fields.get(key, key) for key in given if key not in extra)  # noqa: SLF001 - own
        return model

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Manifest)
            and type(self) is type(other)
            and self.__dict__ == other.__dict__
            and (self.__pydantic_extra__ or {}) == (other.__pydantic_extra__ or {})
        )


def _refuse_unknown(model: type[Manifest], given: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse keywords that are no fields, with the field that was probably meant."""
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            also = f"; did you mean {close[0]}?" if close else ""
            raise PydanticCustomError(
                "unknown_field",
                "{model} has no field {name}{also}",
                {"model": model.__name__, "name": name, "also": also},
            )


@cache
def _wires(model: type[Manifest]) -> dict[str, str]:
    """Return Python name to wire name."""
    return {name: field.alias or name for name, field in model.model_fields.items()}


@cache
def _fields(model: type[Manifest]) -> dict[str, str]:
    """Return wire name to Python name."""
    return {wire: name for name, wire in _wires(model).items()}


@cache
def _defaults(model: type[Manifest]) -> dict[str, Any]:
    return {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Manifest):
        return value.to_object()
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("tuple[Any, ...]", value)]
    return str(value) if isinstance(value, str) else value
