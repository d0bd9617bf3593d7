"""Public face of rollouts over a fleet: policy, waves, windows, the next decision, plans. All of it is pure."""

from windlass.domain.servicesets.rollout.cluster_policy import ClusterApproval, ClusterPolicy, Freeze, gates
from windlass.domain.servicesets.rollout.conditions import ConditionType, ObjectConditions, conditions
from windlass.domain.servicesets.rollout.critical import Segment, critical_path
from windlass.domain.servicesets.rollout.documents import cluster_policy, past_steps, rollout_policy
from windlass.domain.servicesets.rollout.fleet import Change, ClusterIntents, Fleet, Intent, Owned
from windlass.domain.servicesets.rollout.intents import intents
from windlass.domain.servicesets.rollout.next_action import next_actions
from windlass.domain.servicesets.rollout.plan import ClusterPlan, Outcome, Plan, WavePlan, plan
from windlass.domain.servicesets.rollout.policy import Approval, Order, RolloutPolicy
from windlass.domain.servicesets.rollout.predictions import PastStep, Prediction, Predictions
from windlass.domain.servicesets.rollout.review import Finding, review
from windlass.domain.servicesets.rollout.state import (
    Action,
    ActionKind,
    ClusterState,
    Decision,
    Gate,
    Hold,
    Observed,
    Phase,
    Rollout,
)
from windlass.domain.servicesets.rollout.timeline import Hop, ServicePlan, Wait
from windlass.domain.servicesets.rollout.waves import CanaryMissingError, Target, Wave, waves
from windlass.domain.servicesets.rollout.windows import Opening, Window, next_opening, opening_at, opening_from

__all__ = [
    "Action",
    "ActionKind",
    "Approval",
    "CanaryMissingError",
    "Change",
    "ClusterApproval",
    "ClusterIntents",
    "ClusterPlan",
    "ClusterPolicy",
    "ClusterState",
    "ConditionType",
    "Decision",
    "Finding",
    "Fleet",
    "Freeze",
    "Gate",
    "Hold",
    "Hop",
    "Intent",
    "ObjectConditions",
    "Observed",
    "Opening",
    "Order",
    "Outcome",
    "Owned",
    "PastStep",
    "Phase",
    "Plan",
    "Prediction",
    "Predictions",
    "Rollout",
    "RolloutPolicy",
    "Segment",
    "ServicePlan",
    "Target",
    "Wait",
    "Wave",
    "WavePlan",
    "Window",
    "cluster_policy",
    "conditions",
    "critical_path",
    "gates",
    "intents",
    "next_actions",
    "next_opening",
    "opening_at",
    "opening_from",
    "past_steps",
    "plan",
    "review",
    "rollout_policy",
    "waves",
]
