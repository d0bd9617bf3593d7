"""Commands that show the route of a chain or the plan of a rollout."""
