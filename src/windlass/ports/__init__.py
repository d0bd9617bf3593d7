"""What activities need of the world, as Protocols. Adapters implement them; unit tests fake them.

Every method raises only `windlass.domain.errors` types. A cancelled call (`asyncio.CancelledError`) leaves nothing
running behind: it returns control only when the process, watch or request it started has ended.
"""
