"""Rollouts over a fleet: who may begin when, and what a whole rollout would do. Pure: the time is an argument."""
