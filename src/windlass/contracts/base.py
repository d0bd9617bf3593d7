"""What every wire model has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """Base of all models that travel in Temporal payloads or are stored between runs.

    Unknown fields are ignored, so that an old worker reads what a newer one wrote while a roll-out is under way; fields
    are only ever added, with defaults. Values are immutable: a changed state is a new object (`model_copy`). Validation
    errors do not show the input they refused, because their text may end up in logs and conditions.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)
