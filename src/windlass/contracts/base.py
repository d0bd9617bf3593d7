"""What every wire model has in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """Base of all models that travel in Temporal payloads or are stored between runs.

    Unknown fields are ignored, so that an old worker reads what a newer one wrote while a roll-out is under way; fields
    are only ever added, with defaults. Values are immutable: a changed state is a new object (`model_copy`). Validation
    errors do not show the input they refused, because their text may end up in logs and conditions.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class KubeModel(BaseModel):
    """Configuration of every part of a Kubernetes object: camelCase on the wire, unknown fields kept."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    def to_object(self) -> dict[str, Any]:
        """Return the JSON form: what was set, including fields this version does not know, without nulls."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
