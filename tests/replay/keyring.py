"""The fixed keys of recorded histories. Published with the repository: worthless for anything else."""

from __future__ import annotations

from windlass.temporal.keyring import Keyring

REPLAY_NAMESPACE = "default"
"""The Temporal namespace that recorded histories are sealed for."""

REPLAY_KEYRING = Keyring(
    current="replay",
    keys={"replay": b"windlass replay histories: fixed"},
)
