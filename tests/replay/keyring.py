"""The fixed keys of recorded histories. Published with the repository: worthless for anything else."""

from __future__ import annotations

from windlass.temporal.keyring import Keyring

REPLAY_KEYRING = Keyring(
    current="replay",
    keys={"replay": b"windlass replay histories: fixed"},
    digest_key=b"windlass replay digests: fixed!!",
)
